#include <doctest/doctest.h>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::identical;
using text::Pair;
using text::Sentence;

Tensor ids(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return Tensor::of(shape, values);
}

TEST_CASE("make_batch: sentences stand in columns, padded on the right") {
  const std::vector<Pair> pairs = {{{5, 6, 7}, {8}}, {{9}, {10, 11}}};
  const text::Batch batch = text::make_batch(pairs);
  CHECK(batch.sentences() == 2);
  CHECK(identical(batch.source, ids({3, 2}, {5, 9, 6, 0, 7, 0})));
  CHECK(identical(batch.source_mask, Tensor::of({3, 2}, {1.f, 1.f, 1.f, 0.f, 1.f, 0.f})));
}

TEST_CASE("make_batch: a target is entered after <s>, and asked for up to </s>") {
  const std::vector<Pair> pairs = {{{5, 6, 7}, {8}}, {{9}, {10, 11}}};
  const text::Batch batch = text::make_batch(pairs);
  CHECK(identical(batch.previous, ids({3, 2}, {1, 1, 8, 10, 0, 11})));
  CHECK(identical(batch.next, ids({3, 2}, {8, 10, 2, 11, 0, 2})));
  CHECK(identical(batch.target_mask, Tensor::of({3, 2}, {1.f, 1.f, 1.f, 1.f, 0.f, 1.f})));
}

TEST_CASE("make_batch: an empty target is <s> and </s>") {
  const std::vector<Pair> pairs = {{{5}, {}}};
  const text::Batch batch = text::make_batch(pairs);
  CHECK(identical(batch.previous, ids({1, 1}, {text::Vocabulary::begin})));
  CHECK(identical(batch.next, ids({1, 1}, {text::Vocabulary::end})));
  CHECK(batch.target_mask.item() == 1);
}

TEST_CASE("make_batch: masks have the type asked for, words are i32") {
  const std::vector<Pair> pairs = {{{5, 6}, {8}}, {{9}, {10}}};
  const text::Batch batch = text::make_batch(pairs, DType::f64);
  CHECK(batch.source_mask.dtype() == DType::f64);
  CHECK(batch.target_mask.dtype() == DType::f64);
  CHECK(batch.next.dtype() == DType::i32);
  CHECK(identical(batch.source_mask, test::ragged_mask(2, {2, 1})));
}

TEST_CASE("make_source_batch: the same without targets") {
  const std::vector<Sentence> sources = {{5}, {6, 7}, {8, 9}};
  const text::SourceBatch batch = text::make_source_batch(sources);
  CHECK(identical(batch.source, ids({2, 3}, {5, 6, 8, 0, 7, 9})));
  CHECK(identical(batch.mask, Tensor::of({2, 3}, {1.f, 1.f, 1.f, 0.f, 1.f, 1.f})));
}

TEST_CASE("make_batch: no sentences, or a source without words, are errors") {
  CHECK_THROWS_WITH_AS(text::make_batch({}), "batch: there is no sentence", Error);
  CHECK_THROWS_WITH_AS(text::make_source_batch({}), "batch: there is no sentence", Error);
  const std::vector<Pair> pairs = {{{5}, {6}}, {{}, {7}}};
  CHECK_THROWS_WITH_AS(text::make_batch(pairs), "batch: source 1 has no words", Error);
}

}  // namespace
