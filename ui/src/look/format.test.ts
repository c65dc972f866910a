import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, write } from "../data/address";
import { brief, ago, clock, duration, glued, hours, share, shortName, signedShare, size, threeDigits } from "./format";

test("numbers have three digits and a unit", () => {
  assert.equal(duration(41_234_567), "41.2\u00a0ms");
  assert.equal(duration(999_600), "1.00\u00a0ms");
  assert.equal(duration(0), "0");
  assert.equal(duration(7_300e9), "2\u00a0h\u00a02\u00a0min");
  assert.equal(share(0.18), "18.0\u00a0%");
  assert.equal(signedShare(0.18), "+18.0\u00a0%");
  assert.equal(size(2048), "2.05\u00a0kB");
  assert.equal(threeDigits(12345), "12,345");
});

test("what is not known is said, not shown as zero", () => {
  assert.equal(duration(null), "not measured");
  assert.equal(share(Number.NaN), "not measured");
  assert.equal(clock(1e99), "not measured");
});

test("a kernel keeps what tells it apart", () => {
  assert.equal(shortName("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int, at::native::FillFunctor<int>)"), "vectorized_elementwise_kernel<FillFunctor>");
  assert.equal(shortName("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>");
  assert.equal(shortName("void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, (int)4>>(T3)"), "reduce_kernel<ReduceOp>");
  assert.equal(shortName("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  assert.equal(shortName("Memcpy HtoD (Pinned -> Device)"), "Memcpy HtoD (Pinned -> Device)");
  assert.equal(shortName("train.py(53): step"), "train.py(53): step");
});

test("an address carries any name there and back", () => {
  const name = "a/b?c=d&e#<img> ü%";
  const address = parse(write(["job", name], { q: name, empty: "" }));
  assert.deepEqual(address, { path: ["job", name], query: { q: name } });
  assert.deepEqual(parse("#/%E0%A4%A").path, ["%E0%A4%A"]);
});

test("a number is not parted from its unit", () => {
  assert.equal(glued("Step 442 ms, 24 % slower than 2 stops ago (1,185 MHz)").replaceAll("\u00a0", "~"), "Step 442~ms, 24~% slower than 2 stops ago (1,185~MHz)");
});

test("times of the past are told as people do", () => {
  assert.equal(ago(0, 240e9), "4 min ago");
});

test("a kernel in an anonymous namespace has a name, and the functor that tells it apart", () => {
  assert.equal(shortName("void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(at::native::(anonymous namespace)::OpaqueType<2u>*)"), "CatArrayBatchedCopy<…>");
  assert.equal(shortName("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)"), "elementwise_kernel<MulFunctor>");
  assert.equal(shortName("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)"), "unrolled_elementwise_kernel<direct_copy_kernel_cuda>");
});

test("names of Python are whole: what stands in brackets is no template", () => {
  for (const name of ["record.<locals>.wrap.<locals>.wrapper (errors/__init__.py)", "_call_with_frames_removed (<frozen importlib._bootstrap>)", "Optimizer.profile_hook_step.<locals>.wrapper (torch/optim/optimizer.py)", "<module> (bin/torchrun)"]) assert.equal(shortName(name), name);
  assert.equal(shortName("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul>>(int)"), "vectorized_elementwise_kernel<AddFunctor>");
});

test("a number without a unit is short, also where it is large", () => {
  assert.deepEqual([0, 2.74, 164, 4096, 97_100_000, 2.29e10].map((number) => brief(number).replace(/\u00a0/g, " ")), ["0", "2.74", "164", "4,096", "97.1 M", "22.9 G"]);
});

test("hours of a job that has just begun are minutes, a part of them in the unit of the whole", () => {
  const told = (...given: Parameters<typeof hours>) => hours(...given).replaceAll("\u00a0", " ");
  assert.deepEqual([told(13.7, true), told(0.0708, false), told(0.0083, false)], ["13.7 GPU-h", "4.25 rank-min", "29.9 rank-s"]);
  assert.deepEqual([told(0.0467, true, 13.7), told(0.000009, false, 0.0416), told(null, true, 2)], ["0.0467 GPU-h", "0.000540 rank-min", "not measured"]);
});

test("names that only a compiler reads are told as their parts", () => {
  assert.equal(shortName("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0EEvPT0_"), "aiter::add_rmsnorm_quant_kernel<…>");
  assert.equal(shortName("_ZN12_GLOBAL__N_16kernelEv"), "kernel");
  assert.equal(shortName("_Znothing"), "_Znothing");
});
