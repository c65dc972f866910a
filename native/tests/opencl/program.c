// An OpenCL program: two queues, kernels, copies, a fill, with and without events of its own.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 65536

static void must(cl_int error, const char* what) {
  if (error) {
    fprintf(stderr, "%s: %d\n", what, error);
    exit(1);
  }
}

static const char* source =
    "__kernel void scale(__global float *x, float by) { x[get_global_id(0)] *= by; }"
    "__kernel void spin(__global float *x) {"
    "  float a = x[get_global_id(0)];"
    "  for (int i = 0; i < 50; i++) a = a * 1.0001f + 0.5f;"
    "  x[get_global_id(0)] = a; }";

int main(int count, char** words) {
  int rounds = count > 1 ? atoi(words[1]) : 3;
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  must(clGetPlatformIDs(1, &platform, NULL), "platform");
  must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  must(error, "context");
  cl_command_queue first = clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  cl_command_queue second = clCreateCommandQueueWithProperties(context, device, NULL, &error);
  must(error, "queue with properties");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
  cl_kernel scale = clCreateKernel(program, "scale", &error);
  cl_kernel spin = clCreateKernel(program, "spin", &error);
  float *host = malloc(N * sizeof(float)), by = 2, zero = 0;
  for (int i = 0; i < N; i++) host[i] = 1;
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &error);
  cl_mem other = clCreateBuffer(context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &error);
  size_t global = N;
  must(clSetKernelArg(scale, 0, sizeof memory, &memory), "argument");
  must(clSetKernelArg(scale, 1, sizeof by, &by), "argument");
  must(clSetKernelArg(spin, 0, sizeof other, &other), "argument");
  for (int i = 0; i < rounds; i++) {
    cl_event written, done;
    must(clEnqueueWriteBuffer(first, memory, CL_FALSE, 0, N * sizeof(float), host, 0, NULL,
                              &written),
         "write");
    must(clEnqueueNDRangeKernel(first, scale, 1, NULL, &global, NULL, 1, &written, &done), "scale");
    must(
        clEnqueueFillBuffer(second, other, &zero, sizeof zero, 0, N * sizeof(float), 0, NULL, NULL),
        "fill");
    must(clEnqueueNDRangeKernel(second, spin, 1, NULL, &global, NULL, 0, NULL, NULL), "spin");
    must(clWaitForEvents(1, &done), "wait");
    must(clEnqueueCopyBuffer(first, memory, other, 0, 0, 1024, 0, NULL, NULL), "copy");
    must(clEnqueueReadBuffer(first, memory, CL_TRUE, 0, N * sizeof(float), host, 0, NULL, NULL),
         "read");
    cl_uint references = 0;
    must(clGetEventInfo(done, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL),
         "references");
    clReleaseEvent(written);
    clReleaseEvent(done);
    must(clFinish(second), "finish");
  }
  // Ends with commands in the queue: each waits for what nobody does.
  if (count > 2) {
    cl_event never = clCreateUserEvent(context, &error);
    for (int i = 0; i < atoi(words[2]); i++) {
      must(clEnqueueNDRangeKernel(second, spin, 1, NULL, &global, NULL, 1, &never, NULL), "spin");
    }
    exit(0);
  }
  // What is refused is refused as before.
  cl_int refused = clEnqueueNDRangeKernel(first, scale, 9, NULL, &global, NULL, 0, NULL, NULL);
  printf("%g %d\n", host[0], refused == CL_INVALID_WORK_DIMENSION);
  return 0;
}
