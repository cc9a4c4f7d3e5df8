/* A model of the pool in tensor/threads.cpp: a caller with three jobs, one after another, of one to
   three tiles each, and two workers. Spin visits every interleaving of their steps and checks that

     each tile runs once;
     a tile runs with the body of the job whose caller is waiting for it;
     all tiles of a job are done before its caller returns;
     caller and workers terminate.

       spin -search pool.pml               no errors
       spin -search -DFAULT=1 pool.pml     the number of tiles is stored before the job: an error
       spin -search -DFAULT=2 pool.pml     the caller returns when all tiles are drawn: an error
       spin -search -DFAULT=3 pool.pml     a worker reads the job before it draws: an error
       spin -search -DFAULT=4 pool.pml     a worker checks too early whether to stop: it sleeps forever

   A step reads or writes one shared variable, and all threads see the writes in the same order. The
   comment in threads.cpp shows why this holds for the variables that are not atomic. */
#ifndef FAULT
#define FAULT 0
#endif
#define JOBS 3
#define MOST 3

short undrawn = 0;
byte tiles_done = 0;
byte announced = 0;
bool stopping = false;
byte job_tiles = 0;      /* Job::tiles */
byte job_body = 0;       /* Job::body, the number of the job */

byte running = 0;        /* the job whose caller has not returned; 0 between jobs */
byte runs[12];           /* of tile t of job n: runs[MOST * (n - 1) + t]; there are 9 */

inline execute(body, tile) {
  assert(body == running);
  assert(tile < MOST);
  d_step { runs[MOST * (body - 1) + tile]++; assert(runs[MOST * (body - 1) + tile] == 1) }
}

inline work(left, tiles, body) {
  do
  ::
#if FAULT == 3
     tiles = job_tiles; body = job_body;
#endif
     d_step { left = undrawn; undrawn-- };   /* fetch_sub */
     if
     :: left <= 0 -> break
     :: else
     fi;
#if FAULT != 3
     body = job_body; tiles = job_tiles;
#endif
     execute(body, tiles - left);
     tiles_done++
  od
}

active [2] proctype worker() {
  byte seen = 0;
  short left;
  byte tiles, body;
  do
  :: announced != seen ->
#if FAULT == 4
     if
     :: stopping -> break
     :: else
     fi;
     seen = announced;
#else
     seen = announced;
     if
     :: stopping -> break
     :: else
     fi;
#endif
     work(left, tiles, body)
  od
}

active proctype caller() {
  byte n, t, size;
  short left;
  byte tiles, body;
  for (n : 1 .. JOBS) {
    select(size : 1 .. MOST);
    running = n;
#if FAULT == 1
    tiles_done = 0; undrawn = size; job_body = n; job_tiles = size;
#else
    job_body = n; job_tiles = size; tiles_done = 0; undrawn = size;
#endif
    announced++;
    work(left, tiles, body);
#if FAULT == 2
    undrawn <= 0;
#else
    tiles_done >= size;
#endif
    d_step {
      running = 0;
      for (t : 0 .. size - 1) { assert(runs[MOST * (n - 1) + t] == 1) }
    }
  }
  stopping = true;
  announced++
}
