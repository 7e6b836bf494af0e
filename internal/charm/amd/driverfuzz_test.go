package amd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What other programs wrote is read line by line: whatever it is, every line number is one
// of the text's, and what is found is there.
func FuzzDriverFiles(f *testing.F) {
	for _, seed := range []string{
		"deb [arch=amd64,i386 signed-by=/etc/apt/keyrings/rocm.gpg] https://repo.radeon.com/amdgpu/6.3.3/ubuntu noble main\n",
		"Types: deb\nURIs: https://repo.radeon.com/rocm/apt/6.3.2\n  https://b/amdgpu/6.4.3/ubuntu/\nEnabled: no\n\n",
		"blacklist amdgpu\ninstall amdgpu /bin/false\n", "updates/dkms/amdgpu.ko.zst: kernel/x.ko\n",
		"DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:744C\n", "  Candidate: 6.8.0-52.53\n", "version:  6.10.5\nsrcversion: AB\n", ":\n\n\x00=\r",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		check := func(number int, part string) {
			require.True(t, number >= 1 && number <= len(lines))
			require.Contains(t, lines[number-1], part)
		}
		for _, e := range append(listEntries("f", text), deb822Entries("f", text)...) {
			check(e.Line, e.URI)
			require.True(t, amdRepo(e.URI))
		}
		for _, b := range blacklistLines("f", []byte(text)) {
			check(b.Line, b.Text)
		}
		if _, ok := parseGPU("0000:03:00.0", text); ok {
			require.Contains(t, text, "1002:")
		}
		if s := selectedModule([]byte(text)); s != "" {
			require.Contains(t, text, s+":")
		}
		version, src := modinfo([]byte(text))
		require.Contains(t, text, version)
		require.Contains(t, text, src)
		require.Contains(t, text, candidate([]byte(text)))
		require.Contains(t, text, driverRelease(text))
		require.Contains(t, text, build(text))
	})
}
