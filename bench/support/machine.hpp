// What the machine can do, and what it was doing meanwhile.
#pragma once

namespace attune::bench {

/// GFLOP/s of a 1024 x 1024 x 1024 product, median of five.
double probe_gflops();

/// GFLOP/s of fused multiply-adds on registers alone, in all threads: the limit of any product.
double peak_gflops();

/// Largest resident memory of this process so far.
long peak_rss_mib();

/// CPUs in use since it was made: by this process, and by all others.
class CpuUse {
 public:
  CpuUse();
  double own() const;
  double others() const;

 private:
  double wall_, own_, all_;  // seconds at the start
};

}  // namespace attune::bench
