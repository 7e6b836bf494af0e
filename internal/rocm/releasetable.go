package rocm

// Releases is the table, oldest first. A row gets in when the exact version of
// its driver package was seen for each series it names, and AMD's own pages
// name the kernels; a series whose package was not seen is left out, though
// AMD may well have one. docs/reference/rocm-releases.md is made from it.
func Releases() []Release {
	jammy := Kernels{"jammy", []string{"5.15", "6.8"}}
	noble := func(versions ...string) Kernels { return Kernels{"noble", versions} }
	both, second := []string{"jammy", "noble"}, []string{"noble"}
	const installer, toolkit = "amdgpu-install", "1.2.0"
	return []Release{
		{ROCm: "6.3.2", Driver: "6.3.2", InstallPackage: installer, InstallVersion: "6.3.60302-1",
			DKMSVersion: "6.10.5", Build: "60302-2109964", ToolkitVersion: toolkit, Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.11")}, Default: true,
			Source: "package versions of both series in public installation logs of repo.radeon.com/amdgpu/6.3.2; kernels in AMD's compatibility matrix of ROCm 6.3",
			Reason: "ROCm 6.3.x with driver 6.10.5 is the pair that AMD's container toolkit was documented with (1.0.0; from 1.1.0 on it names none), and this correction of it is checked on both series"},
		{ROCm: "6.3.3", Driver: "6.3.3", InstallPackage: installer, InstallVersion: "6.3.60303-1",
			DKMSVersion: "6.10.5", Build: "60303-2119913", ToolkitVersion: toolkit, Series: second,
			Kernels: []Kernels{noble("6.8", "6.11")},
			Source:  "apt's log of an installation from repo.radeon.com/amdgpu/6.3.3 on noble; kernels in AMD's compatibility matrix of ROCm 6.3",
			Reason:  "the last correction of the same driver that is checked; no package of it was seen for jammy"},
		{ROCm: "6.4.3", Driver: "6.4.3", InstallPackage: installer, InstallVersion: "6.4.60403-1",
			DKMSVersion: "6.12.12", Build: "60403-2194681", ToolkitVersion: toolkit, Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.11", "6.14")},
			Source:  "dpkg's list of a jammy machine, the driver's sources as DKMS has them on noble; kernels in AMD's compatibility matrix of ROCm 6.4",
			Reason:  "ROCm 6.4.1 and newer see GPU partitions in containers; kernel 6.14 of noble needs this driver or a newer one"},
		{ROCm: "7.0.2", Driver: "30.10.2", InstallPackage: installer, InstallVersion: "7.0.2.70002-1",
			DKMSVersion: "6.14.14", Build: "30100200-2226257", ToolkitVersion: toolkit, Series: second,
			Kernels: []Kernels{noble("6.8", "6.14")},
			Source:  "apt's policy of repo.radeon.com/amdgpu/30.10.2 on noble, the exact tuple in a public allowlist; kernels in AMD's system requirements of ROCm 7.0",
			Reason:  "the first series of drivers with numbers of their own, 30.10; no package of it was seen for jammy"},
		{ROCm: "7.1.1", Driver: "30.20.1", InstallPackage: installer, InstallVersion: "7.1.1.70101-1",
			DKMSVersion: "6.16.6", Build: "30200100-2255209", ToolkitVersion: toolkit, Series: second,
			Kernels: []Kernels{noble("6.8", "6.14")},
			Source:  "dpkg's list of a noble machine with repo.radeon.com/amdgpu/30.20.1, the exact tuple in a public allowlist; kernels: Ubuntu 24.04.3 is AMD's until ROCm 7.2.1",
			Reason:  "drivers 30.20; no package of it was seen for jammy"},
		{ROCm: "7.2.3", Driver: "30.30.3", InstallPackage: installer, InstallVersion: "7.2.3.70203-1",
			DKMSVersion: "6.16.13", Build: "30300300-2327507", ToolkitVersion: toolkit, Series: both,
			Kernels: []Kernels{jammy, noble("6.8", "6.17")},
			Source:  "a public installer with the whole version for jammy, DKMS's log on noble, the exact tuple in a public allowlist; kernels in AMD's release notes of ROCm 7.2.1 (Ubuntu 24.04.4) and system requirements",
			Reason:  "kernel 6.17 of noble needs this driver; by AMD's matrix it serves containers with ROCm 6.3 to 7.2"},
	}
}
