package charmpack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckNamesWhatJujuRefuses(t *testing.T) {
	const meta = "name: a\nsummary: s\ndescription: d\n"
	tests := []struct{ name, file, content, want string }{
		{"misspelt key", "metadata.yaml", meta + "require: {}\n", "field require not found"},
		{"key of format v1", "metadata.yaml", meta + "series: [noble]\n", "field series not found"},
		{"bad name", "metadata.yaml", "name: A_b\nsummary: s\ndescription: d\n", `name "A_b" is not one Juju accepts`},
		{"no summary", "metadata.yaml", "name: a\ndescription: d\n", "summary and description are required"},
		{"reserved relation", "metadata.yaml", meta + "requires: {juju-x: {interface: i}}\n", "the name is reserved"},
		{"relation twice", "metadata.yaml", meta + "requires: {x: {interface: i}}\nprovides: {x: {interface: i}}\n", "relation x is there twice"},
		{"no interface", "metadata.yaml", meta + "peers: {x: {}}\n", "relation x has no interface"},
		{"bad scope", "metadata.yaml", meta + "peers: {x: {interface: i, scope: unit}}\n", `scope "unit"`},
		{"resource in a folder", "metadata.yaml", meta + "resources: {r: {type: file, filename: a/b}}\n", "not a plain file name"},
		{"resource of no type", "metadata.yaml", meta + "resources: {r: {filename: a}}\n", "not file or oci-image"},
		{"unknown option type", "config.yaml", "options: {a: {type: bool, description: d}}\n", `option a: type "bool"`},
		{"default of another type", "config.yaml", "options: {a: {type: int, default: x, description: d}}\n", "option a: default x is not a int"},
		{"version read as a number", "config.yaml", "options: {a: {type: string, default: 1.2, description: d}}\n", "option a: default 1.2 is not a string"},
		{"option twice", "config.yaml", "options:\n  a: {type: int, description: d}\n  a: {type: int, description: d}\n", "already defined"},
		{"option without text", "config.yaml", "options: {a: {type: int}}\n", "option a has no description"},
		{"misspelt option key", "config.yaml", "options: {a: {type: int, defaults: 1, description: d}}\n", "field defaults not found"},
		{"bad action name", "actions.yaml", "list_gpus: {description: d}\n", "action list_gpus"},
		{"reserved action name", "actions.yaml", "juju-run: {description: d}\n", "action juju-run"},
		{"required but not there", "actions.yaml", "a: {description: d, required: [x]}\n", "requires x"},
		{"any parameter", "actions.yaml", "a: {description: d}\n", "action a takes any parameter"},
		{"any parameter on purpose", "actions.yaml", "a: {description: d, additionalProperties: true}\n", "action a takes any parameter"},
		{"action without text", "actions.yaml", "a: {}\n", "action a has no description"},
		{"device Juju refuses", "lxd-profile.yaml", "devices: {root: {type: disk, path: /}}\n", `device root: type "disk"`},
		{"device of no type", "lxd-profile.yaml", "devices: {kfd: {path: /dev/kfd}}\n", `device kfd: type ""`},
		{"limits", "lxd-profile.yaml", "config: {limits.memory: 1GB}\n", "config limits.memory: Juju refuses limits*"},
		{"boot", "lxd-profile.yaml", "config: {boot.autostart: \"true\"}\n", "Juju refuses boot*"},
		{"migration", "lxd-profile.yaml", "config: {migration.stateful: \"true\"}\n", "Juju refuses migration*"},
		{"misspelt profile key", "lxd-profile.yaml", "device: {}\n", "field device not found"},
		{"not YAML", "actions.yaml", "a: [\n", "actions.yaml: yaml:"},
		{"empty", "config.yaml", "", "config.yaml: EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := small(t)
			require.NoError(t, s.Check())
			put(t, s, tt.file, tt.content)
			require.ErrorContains(t, s.Check(), tt.want)
		})
	}
}

func TestCheckNamesEveryProblemAtOnce(t *testing.T) {
	s := small(t)
	put(t, s, "config.yaml", "options: {a: {type: bool}}\n")
	put(t, s, "lxd-profile.yaml", "config: {boot.x: y}\ndevices: {d: {type: nic}}\n")
	require.EqualError(t, s.Check(), `config.yaml: option a has no description
config.yaml: option a: type "bool" is not string, int, float, boolean or secret
lxd-profile.yaml: config boot.x: Juju refuses boot*
lxd-profile.yaml: device d: type "nic" is not one of unix-char, unix-block, gpu, usb`)
}
