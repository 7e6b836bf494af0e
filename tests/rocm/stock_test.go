//go:build e2e

package rocm

import "github.com/fourdollars/concourse-ci-machine/internal/charm/amd"

// kernel is the kernel of the fixture host mi210x4.
const kernel = "6.8.0-31-generic"

// needsDriver is what the preinst of AMD's container toolkit checks: it ends with 1 if the
// kernel has no amdgpu.
const needsDriver = `if [ ! -d /sys/module/amdgpu/drivers/ ]; then
	echo 'amdgpu driver not found' >&2
	exit 1
fi`

// cleanup does what the prerm of AMD's container toolkit does from 1.1.0 on, when
// it is removed and when it is upgraded: all of /etc/cdi goes, whoever made it, and
// Docker's settings are written again without the runtime of AMD's. A test can have
// it kill the programs that began it, half-way.
const cleanup = `if [ -e ` + killers + ` ]; then
	rm -rf /etc/cdi/*.json
	pid=$$ all=
	while pid=$(awk '$1 == "PPid:" { print $2 }' /proc/$pid/status); [ "$pid" -gt 1 ]; do
		grep -qx -f ` + killers + ` /proc/$pid/comm && all="$pid $all"
	done
	grep -qx dpkg ` + killers + ` && end=exit
	rm ` + killers + `
	kill -KILL $all
	$end
fi
rm -rf /etc/cdi
[ -f /etc/docker/daemon.json ] || exit 0
out=$(grep -v amd-container-runtime /etc/docker/daemon.json)
echo "$out" > /etc/docker/daemon.json`

// killers names, in lines, the programs that cleanup kills.
const killers = "/srv/killed-by-prerm"

// dkms is what a DKMS package's postinst comes to: a module for the running kernel, if its
// headers are installed.
const dkms = `if [ ! -e /lib/modules/` + kernel + `/build ]; then
	echo 'the headers of ` + kernel + ` are missing' >&2
	exit 1
fi
mkdir -p /lib/modules/` + kernel + `/updates/dkms
echo module > /lib/modules/` + kernel + `/updates/dkms/amdgpu.ko`

// smi answers as rocm-smi --showid does.
const smi = "#!/bin/sh\n[ ! -e /srv/hang ] || exec sleep 1000\necho 'GPU[0]\t\t: Device Name: AMD Instinct MI210'\n"

// makeStock builds the packages that the repositories here are made of.
func makeStock() (map[string]*deb, error) {
	release, err := amd.FindRelease("", "noble", kernel)
	if err != nil {
		return nil, err
	}
	driver := release.Package("noble")
	all := map[string]*deb{}
	for _, r := range []recipe{
		{name: "amd-container-toolkit", version: "1.1.0", preinst: needsDriver, prerm: cleanup},
		{name: "amd-container-toolkit", version: "1.3.0~24.04", preinst: needsDriver, prerm: cleanup, files: map[string]string{"usr/bin/amd-ctk": "#!/bin/sh\n"}},
		{name: "amdgpu-dkms", version: driver, depends: "amdgpu-dkms-firmware", postinst: dkms},
		{name: "amdgpu-dkms", version: "1:6.8.5.60200-2009582.24.04", postinst: dkms},
		{name: "amdgpu-dkms-firmware", version: driver},
		{name: "rocm-smi-lib", version: "7.4.0.60302-66~24.04", depends: "rocm-core", files: map[string]string{"opt/rocm-" + release.ROCm + "/bin/rocm-smi": smi}},
		{name: "rocm-core", version: "6.3.2.60302-66~24.04"},
		{name: "amd-smi-lib", version: "24.7.1.60302-66~24.04"},
		{name: "amdgpu-install", version: "6.3.60302-2109964.24.04", files: map[string]string{
			"etc/apt/sources.list.d/amdgpu.list": "deb https://repo.radeon.com/amdgpu/6.3.2/ubuntu noble main\n"}},
		{name: "linux-headers-" + kernel, version: "6.8.0-31.31", files: map[string]string{"lib/modules/" + kernel + "/build": "headers\n"}},
	} {
		d, err := makeDeb(r)
		if err != nil {
			return nil, err
		}
		all[r.name+" "+r.version] = d
		if _, ok := all[r.name]; !ok || r.version == driver || r.version == "1.3.0~24.04" {
			all[r.name] = d
		}
	}
	return all, nil
}
