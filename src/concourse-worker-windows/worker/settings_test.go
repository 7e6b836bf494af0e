//go:build !windows

package worker

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func validSettings() Settings {
	_, public := hosttest.Key("tsa")
	return Settings{Name: "rdna4-box", TSAHost: "10.0.0.10:2222", TSAPublicKey: strings.TrimSpace(public), WorkDir: `C:\concourse`,
		LimitGB: 150, Tags: []string{}, Account: DefaultAccount}
}

func TestInvalidSettingsNameTheirFlag(t *testing.T) {
	valid := validSettings()
	require.NoError(t, valid.check())
	for want, change := range map[string]func(s *Settings){
		"--name":                         func(s *Settings) { s.Name = "a b" },
		"--tsa-host is missing":          func(s *Settings) { s.TSAHost = "" },
		"--tsa-host: ":                   func(s *Settings) { s.TSAHost = "10.0.0.10" },
		"--tsa-public-key is missing":    func(s *Settings) { s.TSAPublicKey = "" },
		"--tsa-public-key: ":             func(s *Settings) { s.TSAPublicKey = "ssh-rsa x" },
		"--team":                         func(s *Settings) { s.Team = "a b" },
		"--work-dir":                     func(s *Settings) { s.WorkDir = `C:\` },
		`--work-dir "C:\\..\\Windows"`:   func(s *Settings) { s.WorkDir = `C:\..\Windows` },
		`--work-dir "\\\\server\\share"`: func(s *Settings) { s.WorkDir = `\\server\share` },
		"--work-limit-gb":                func(s *Settings) { s.LimitGB = 9 },
		"--tag: more than 50 tags":       func(s *Settings) { s.Tags = make([]string, maxTags+1) },
		"--tag":                          func(s *Settings) { s.Tags = []string{"a,b"} },
		"--account":                      func(s *Settings) { s.Account = `.\somebody` },
	} {
		s := validSettings()
		change(&s)
		require.ErrorContains(t, s.check(), want)
	}
	for _, change := range []func(s *Settings){
		func(s *Settings) { s.Account = `CORP\ci$` },
		func(s *Settings) { s.Account = LocalSystem },
		func(s *Settings) { s.WorkDir = `D:\w` },
		func(s *Settings) { s.LimitGB = 10 },
		func(s *Settings) { s.Tags = strings.Split(strings.Repeat("a,", maxTags-1)+"b", ",") },
		func(s *Settings) { s.Name, s.Team = strings.Repeat("a", 100), "ci" },
	} {
		s := validSettings()
		change(&s)
		require.NoError(t, s.check())
	}
}

// An administrator may edit the file.
func TestFileOfSettingsIsReadAsAWhole(t *testing.T) {
	data, err := json.Marshal(validSettings())
	require.NoError(t, err)
	space := func(n int) string { return strings.Repeat(" ", n) }
	for text, want := range map[string]string{
		string(data): "", string(data) + space(maxSettings-len(data)): "", string(data) + space(maxSettings-len(data)+1): "it has more than 65536 bytes",
		string(data) + "{}": "data follows the first JSON value", `{"nmae":"x"}`: "it is not the JSON of the settings", "{}": "--name",
	} {
		s, err := parseSettings([]byte(text))
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, validSettings(), s)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func FuzzParseSettings(f *testing.F) {
	data, err := json.Marshal(validSettings())
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSettings(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := parseSettings(again)
		require.NoError(t, err)
		require.Equal(t, s, same)
	})
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"pid":1,"tags":["windows"],"problem":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseState(data)
		if err == nil {
			require.NotContains(t, s.Problem+s.Account+strings.Join(s.Tags, ""), "\x1b")
			_ = Status{Service: Service{Installed: true}, Settings: &Settings{}, State: &s}.text(hosttest.Now)
		}
	})
}

func TestGPUsOfAMDAreFoundByTheirHardwareID(t *testing.T) {
	for id, want := range map[string]uint16{
		`PCI\VEN_1002&DEV_7551&SUBSYS_04611DA2&REV_C0`: 0x7551,
		`pci\ven_1002&dev_744c`:                        0x744c,
		`PCI\VEN_10DE&DEV_2684`:                        0,
		`PCI\VEN_1002&DEV_75510`:                       0,
		`ROOT\BasicDisplay`:                            0,
	} {
		device, ok := deviceOf(id)
		require.Equal(t, want != 0, ok, id)
		if ok {
			require.Equal(t, want, device)
		}
	}
}

func FuzzDeviceOf(f *testing.F) {
	f.Add(`PCI\VEN_1002&DEV_7551&SUBSYS_04611DA2&REV_C0`)
	f.Fuzz(func(t *testing.T, id string) {
		if _, ok := deviceOf(id); ok {
			require.Contains(t, strings.ToUpper(id), "VEN_1002")
		}
	})
}

func TestTagsAreFromWorkersOnLinux(t *testing.T) {
	card, old, integrated := GPU{Device: 0x7551}, GPU{Device: 0x744c}, GPU{Device: 0x164e}
	require.Equal(t, chips.APU, integrated.Chip().Family)
	s := validSettings()
	s.Tags = []string{"studio"}
	for name, tc := range map[string]struct {
		gpus []GPU
		want string
	}{
		"no GPU":                 {nil, "windows,studio,gpu-count=0"},
		"one card":               {[]GPU{card}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1201"},
		"card beside the APU":    {[]GPU{integrated, card}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1201"},
		"APU alone":              {[]GPU{integrated}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1036"},
		"two architectures":      {[]GPU{card, old}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=2,gfx=gfx1201,gfx=gfx1100"},
		"card beside an unknown": {[]GPU{{Device: 0xffff}, card}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1201"},
		"unknown beside the APU": {[]GPU{{Device: 0xffff}, integrated}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1"},
		"unknown to the table":   {[]GPU{{Device: 0xffff}}, "windows,studio,gpu,compute-runtime=rocm,rocm,gpu-count=1"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, strings.Join(tags(s, tc.gpus), ",")) })
	}
}

func TestWorkersEnvironmentReplacesTheMachines(t *testing.T) {
	p := paths{programs: "P", data: "D"}
	env := environment(p, validSettings(), nil, []string{`Path=C:\Windows`, `Temp=C:\Users\x`, "CONCOURSE_BIND_IP=0.0.0.0", "concourse_log_level=debug", "HIP_PATH=H"})
	require.Subset(t, env, []string{`Path=C:\Windows`, "HIP_PATH=H", "CONCOURSE_BIND_IP=127.0.0.1", "CONCOURSE_NAME=rdna4-box"})
	text := strings.Join(env, "\n")
	require.NotContains(t, text, "0.0.0.0")
	require.NotContains(t, text, "Users")
	require.NotContains(t, text, "debug")
	require.NotContains(t, text, "CONCOURSE_TEAM", "an empty team would be a team")
}

// The first id is the known one of NT SERVICE\TrustedInstaller.
func TestAccountOfAServiceHasItsComputedID(t *testing.T) {
	require.Equal(t, "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464", serviceSID("TrustedInstaller"))
	require.Equal(t, serviceSID("CONCOURSE-worker"), serviceSID(ServiceName))
	require.Equal(t, "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;S-1-2)", descriptor(ServiceReads, "S-1-2", true))
	require.Equal(t, "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)", descriptor(AdminsOnly, "S-1-2", false))
}
