package amd

// Home is where AMD's packages and images put ROCm; there it is a link to the
// version (https://rocm.docs.amd.com, "ROCm installation": /opt/rocm).
const Home = "/opt/rocm"

// TaskEnv is the environment for tasks whose image has Home, by which compilers,
// CMake and PyTorch's extension builder find ROCm. What an image or a task sets
// itself stays.
func TaskEnv() map[string]string {
	return map[string]string{"ROCM_PATH": Home, "ROCM_HOME": Home, "HIP_PATH": Home, "LD_LIBRARY_PATH": Home + "/lib"}
}
