package amd

import (
	"context"
	"errors"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// kernelPackages are what the driver is built with and loaded into: the headers
// of the running kernel, and the modules that Ubuntu keeps in a package of their
// own, where the kernel has one. They are Ubuntu's and stay when the driver goes.
type kernelPackages struct {
	Kernel  string
	Headers bool // they are there, from whatever package
	Proxies resource.Proxies
}

// Diff implements plan.Resource.
func (k kernelPackages) Diff(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	if !k.Headers {
		p, err = resource.Package{Name: "linux-headers-" + k.Kernel, Proxies: k.Proxies}.Diff(ctx, h)
		if err != nil {
			return nil, err
		}
	}
	// Any amdgpu.ko says that the package is not missing: it brings one, and one
	// that DKMS built was built with what it brings.
	there, err := h.Glob("/lib/modules/" + k.Kernel + "/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko*")
	if err != nil {
		return nil, err
	}
	built, err := h.Glob("/lib/modules/" + k.Kernel + "/updates/dkms/amdgpu.ko*")
	if err != nil || len(there)+len(built) > 0 {
		return p, err
	}
	extra, err := resource.Package{Name: "linux-modules-extra-" + k.Kernel, Proxies: k.Proxies}.Diff(ctx, h)
	if err != nil || len(extra) == 0 {
		return p, err
	}
	install := extra[len(extra)-1]
	if len(p) == 0 {
		p = extra[:len(extra)-1] // the lists, which the headers need as well
	}
	do := install.Do
	install.Do = func(ctx context.Context) error {
		err := do(ctx)
		var c *host.CommandError
		if errors.As(err, &c) && strings.Contains(c.Stderr, "Unable to locate package") {
			return nil // a kernel with all its modules in one package
		}
		return err
	}
	return append(p, install), nil
}
