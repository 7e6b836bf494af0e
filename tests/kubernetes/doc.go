// Package kubernetes tests gpu-device-plugin and gpu-dra-driver, and the leases that it shares with
// Concourse's tasks and with containers, on a whole node: Kubernetes' own kubelet, API
// server and scheduler, etcd, and containerd, Debian's, whose pods get device nodes, and
// 2.1, whose pods get CDI devices. Pods open stand-ins of GPUs from inside; sysfs reports
// four. A second node has own mounts, and shares the machine's devices. On a node without a unit,
// Helm installs the chart of tools/images, and the controller manager runs its DaemonSet.
//
// The tests carry the build tag kubernetes and need root, etcd-server, containerd, runc,
// containernetworking-plugins and a static busybox; `make test-kubernetes` runs them. The
// programs of Kubernetes, containerd 2.1 and Helm are built of the module proxy's sources, each
// by its own module that nothing imports (k8s/, containerd/, helm/), and kept in the user's cache
// folder. KUBERNETES=1.36 takes that release, of k8s-1.36/. All runs in namespaces and control its
// own groups, and reaches no network.
package kubernetes
