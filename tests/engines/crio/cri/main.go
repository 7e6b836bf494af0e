// The command cri runs one container by the Container Runtime Interface, as a kubelet
// does, and prints what it wrote: cri [FLAG ...] SOCKET HANDLER IMAGE FOLDER [NAME=VALUE ...] -- COMMAND ...
// Its pod has the machine's network. FOLDER is for its log. Flags are what a device plugin and
// a pod's securityContext give.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	device = flag.String("device", "", "CDI name of a device")
	nodes  = flag.String("nodes", "", "paths of device nodes, with commas")
	user   = flag.Int64("user", 0, "runAsUser and runAsGroup")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	at := slices.Index(args, "--")
	if at < 4 {
		return fmt.Errorf("want [FLAG ...] SOCKET HANDLER IMAGE FOLDER [NAME=VALUE ...] -- COMMAND ..., got %q", args)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := cri.NewRuntimeServiceClient(conn)
	pod := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: fmt.Sprint(os.Getpid())},
		LogDirectory: args[3],
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}}},
	}
	sandbox, err := c.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: pod, RuntimeHandler: args[1]})
	if err != nil {
		return err
	}
	out, err := container(ctx, c, sandbox.PodSandboxId, pod, args[2], args[4:at], args[at+1:])
	fmt.Print(out)
	_, failed := c.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.PodSandboxId})
	if err != nil {
		return err
	}
	return failed
}

func container(ctx context.Context, c cri.RuntimeServiceClient, sandbox string, pod *cri.PodSandboxConfig, image string, env, command []string) (string, error) {
	config := &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "container"}, Image: &cri.ImageSpec{Image: image}, Command: command, LogPath: "log",
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: pod.Linux.SecurityContext.NamespaceOptions}}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		config.Envs = append(config.Envs, &cri.KeyValue{Key: name, Value: value})
	}
	give(config)
	made, err := c.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: sandbox, Config: config, SandboxConfig: pod})
	if err != nil {
		return "", err
	}
	if _, err := c.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return "", err
	}
	for {
		s, err := c.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: made.ContainerId})
		if err != nil {
			return "", err
		}
		if s.Status.State == cri.ContainerState_CONTAINER_EXITED {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	log, err := os.ReadFile(filepath.Join(pod.LogDirectory, "log"))
	out := ""
	for line := range strings.Lines(string(log)) { // time, stream, F or P, text
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			out += f[3]
		}
	}
	return out, err
}

// give applies the flags.
func give(config *cri.ContainerConfig) {
	if *device != "" {
		config.CDIDevices = []*cri.CDIDevice{{Name: *device}}
	}
	for path := range strings.FieldsFuncSeq(*nodes, func(r rune) bool { return r == ',' }) {
		config.Devices = append(config.Devices, &cri.Device{HostPath: path, ContainerPath: path, Permissions: "rw"})
	}
	of := config.Linux.SecurityContext
	of.RunAsUser, of.RunAsGroup = &cri.Int64Value{Value: *user}, &cri.Int64Value{Value: *user}
}
