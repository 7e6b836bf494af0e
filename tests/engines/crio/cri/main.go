// The command cri runs one container by the Container Runtime Interface, as a kubelet
// does, and prints what it wrote: cri SOCKET HANDLER IMAGE FOLDER [NAME=VALUE ...] -- COMMAND ...
// Its pod has the machine's network. FOLDER is for its log.
package main

import (
	"context"
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

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	at := slices.Index(args, "--")
	if at < 4 {
		return fmt.Errorf("want SOCKET HANDLER IMAGE FOLDER [NAME=VALUE ...] -- COMMAND ..., got %q", args)
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
