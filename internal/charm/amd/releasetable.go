package amd

// Releases returns the table, oldest first. A row requires the exact version of its driver
// package for each of its series, and AMD's own pages must name the kernels. A series
// without a checked package is left out, even if AMD may have a package. A row with Unknown
// only recognises a running driver. docs/reference/rocm-releases.md is generated from the
// table.
func Releases() []Release {
	jammy := Kernels{"jammy", []string{"5.15", "6.8"}}
	noble := func(versions ...string) Kernels { return Kernels{"noble", versions} }
	both, second := []string{"jammy", "noble"}, []string{"noble"}
	const installer = "amdgpu-install"
	const kernels = "the kernels that AMD names for it were not seen"
	return []Release{
		{ROCm: "6.3.2", Driver: "6.3.2", InstallPackage: installer, InstallVersion: "6.3.60302-1",
			DKMSVersion: "6.10.5", Build: "60302-2109964", Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.11")},
			Source: "package versions of both series in public installation logs of " +
				"repo.radeon.com/amdgpu/6.3.2; kernels in AMD's compatibility matrix of ROCm 6.3",
			Reason: "ROCm 6.3.x with driver 6.10.5 is the pair that AMD's container toolkit was documented with " +
				"(1.0.0; from 1.1.0 on it names none), and this correction of it is checked on both series"},
		{ROCm: "6.3.3", Driver: "6.3.3", InstallPackage: installer, InstallVersion: "6.3.60303-1",
			DKMSVersion: "6.10.5", Build: "60303-2119913", Series: second,
			Kernels: []Kernels{noble("6.8", "6.11")},
			Source: "apt's log of an installation from repo.radeon.com/amdgpu/6.3.3 on noble; kernels in AMD's " +
				"compatibility matrix of ROCm 6.3",
			Reason: "the last correction of the same driver that is checked; no package of it was seen for jammy"},
		{ROCm: "6.4.3", Driver: "6.4.3", InstallPackage: installer, InstallVersion: "6.4.60403-1",
			DKMSVersion: "6.12.12", Build: "60403-2194681", Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.11", "6.14")},
			Source: "dpkg's list of a jammy machine, the driver's sources as DKMS has them on noble; kernels " +
				"in AMD's compatibility matrix of ROCm 6.4",
			Reason: "ROCm 6.4.1 and newer see GPU partitions in containers; kernel 6.14 of noble needs this " +
				"driver or a newer one"},
		{ROCm: "7.0.2", Driver: "30.10.2", InstallPackage: installer, InstallVersion: "7.0.2.70002-1",
			DKMSVersion: "6.14.14", Build: "30100200-2226257", Series: second,
			Kernels: []Kernels{noble("6.8", "6.14")},
			Date:    "2025-10",
			Source: "apt's policy of repo.radeon.com/amdgpu/30.10.2 on noble, the exact tuple in a public " +
				"allowlist; kernels in AMD's system requirements of ROCm 7.0",
			Reason: "the first series of drivers with separate numbers, 30.10; no package of it was seen " +
				"for jammy"},
		{ROCm: "7.1.1", Driver: "30.20.1", InstallPackage: installer, InstallVersion: "7.1.1.70101-1",
			DKMSVersion: "6.16.6", Build: "30200100-2255209", Series: second,
			Kernels: []Kernels{noble("6.8", "6.14")},
			Date:    "2025-11",
			Source: "dpkg's list of a noble machine with repo.radeon.com/amdgpu/30.20.1, the exact tuple in a " +
				"public allowlist; kernels: Ubuntu 24.04.3 is AMD's until ROCm 7.2.1",
			Reason: "drivers 30.20; no package of it was seen for jammy"},
		{ROCm: "7.2.3", Driver: "30.30.3", InstallPackage: installer, InstallVersion: "7.2.3.70203-1",
			DKMSVersion: "6.16.13", Build: "30300300-2327507", Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.17")},
			Source: "a public installer with the whole version for jammy, DKMS's log on noble, the exact tuple " +
				"in a public allowlist; kernels in AMD's release notes of ROCm 7.2.1 (Ubuntu 24.04.4) and " +
				"system requirements",
			Reason: "kernel 6.17 of noble needs this driver; by AMD's matrix it serves containers with ROCm 6.3 " +
				"to 7.2"},
		{ROCm: "7.2.4", Driver: "30.30.4", InstallPackage: installer, InstallVersion: "7.2.4.70204-1",
			DKMSVersion: "6.16.13", Build: "30300400-2341068", Series: second,
			Kernels: []Kernels{noble("6.8", "6.17")},
			Source: "apt's log of amdgpu-install 7.2.4 with the whole version for noble, the exact tuple in a " +
				"public allowlist; kernels in AMD's system requirements of ROCm 7.2.4 (Ubuntu 24.04.4)",
			Reason: "the last ROCm in the repositories of repo.radeon.com; no package of it was seen for jammy"},
		{ROCm: "7.13.0", Driver: "31.30", InstallPackage: installer, InstallVersion: "31.30.313000-1",
			DKMSVersion: "6.19.4", Build: "31300000-2337710", Unknown: kernels,
			Source: "the exact tuple in a public allowlist, with the package of amdgpu-install",
			Reason: "drivers 31.30, so that one that runs is recognised; ROCm comes from repo.amd.com in " +
				"packages with other names since then"},
		{ROCm: "7.14.0", Driver: "31.40", InstallPackage: installer, InstallVersion: "31.40.314000-1",
			DKMSVersion: "6.19.14", Build: "31400000-2364437", Numbered: true, Unknown: kernels, Date: "2026-07",
			Source: "dpkg's and DKMS's lists of a noble machine, the exact tuple in a public allowlist; the " +
				"module's version in AMD's note for its DRA driver (gpu-operator#609)",
			Reason: "drivers 31.40, so that one that runs is recognised"},
		{ROCm: "10.0.0", Driver: "31.50", InstallPackage: installer,
			DKMSVersion: "7.1.3", Build: "31500000-2390945", Numbered: true, Unknown: kernels, Date: "2026-08",
			Source: "a public record of Ubuntu 26.04 with the whole version of the package and of the module",
			Reason: "ROCm Core SDK 10.0 and drivers 31.50, so that one that runs is recognised; ROCm comes from " +
				"stable.repo.amd.com since then"},
	}
}
