package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHipArchesAreDistinctAndNormalized(t *testing.T) {
	for value, want := range map[string]string{
		"":                              "",
		"gfx1100":                       "gfx1100",
		"gfx942, gfx90a,gfx942":         "gfx942 gfx90a",
		"gfx90a:sramecc+:xnack-,gfx942": "gfx90a:sramecc+:xnack- gfx942",
		"gfx90a:xnack-:sramecc+,gfx90a:sramecc+:xnack-": "gfx90a:sramecc+:xnack-",
		"gfx90a:xnack+,gfx90a:xnack-":                   "gfx90a:xnack+ gfx90a:xnack-",
		"gfx9-4-generic,gfx11-generic":                  "gfx9-4-generic gfx11-generic",
	} {
		c, problems := Parse(map[string]any{"task-env": `HIP_ARCHES="` + value + `"`}, nil)
		require.Empty(t, problems, value)
		require.Equal(t, want, strings.ReplaceAll(c.GPU.TaskEnv["HIP_ARCHES"], ",", " "), value)
	}
	for value, want := range map[string]string{
		"gfx":                    `"gfx" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"gfx90a,":                `"" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"gfx90A":                 `"gfx90A" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"gfx90a;gfx942":          `"gfx90a;gfx942" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"sm_90":                  `"sm_90" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"gfx-generic":            `"gfx-generic" is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas`,
		"gfx90a:xnack":           `"gfx90a:xnack": a feature is one of sramecc+, sramecc-, xnack+, xnack-`,
		"gfx90a:":                `"gfx90a:": a feature is one of sramecc+, sramecc-, xnack+, xnack-`,
		"gfx90a:xnack+:xnack-":   `"gfx90a:xnack+:xnack-": xnack is given twice`,
		"gfx90a:xnack+,gfx90a":   `entries of gfx90a have different features; give them the same ones, with + or -`,
		"gfx942,gfx942:sramecc-": `entries of gfx942 have different features; give them the same ones, with + or -`,
	} {
		_, problems := Parse(map[string]any{"task-env": `HIP_ARCHES="` + value + `"`}, nil)
		require.Equal(t, []Problem{{"task-env", "HIP_ARCHES: " + want}}, problems, value)
	}
}

func TestRequiredArchsAreArchitecturesOfHardware(t *testing.T) {
	c, problems := Parse(map[string]any{"required-archs": "gfx942,gfx90a, gfx942"}, nil)
	require.Empty(t, problems)
	require.Equal(t, []string{"gfx942", "gfx90a"}, c.Web.RequiredArchs)
	for _, value := range []string{"gfx90a:xnack-", "gfx11-generic", "gfx12", "gfx123456789", "rocm", "gfx942,,gfx90a"} {
		_, problems := Parse(map[string]any{"required-archs": value}, nil)
		require.Len(t, problems, 1, value)
		require.Contains(t, problems[0].Text, "is not an architecture such as gfx90a or gfx1100; want them with commas between them", value)
	}
}

func FuzzHIPArches(f *testing.F) {
	f.Add("gfx90a:sramecc+:xnack-, gfx942,gfx11-generic")
	f.Add("gfx:,:,-generic")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := hipArches(s)
		if err != nil {
			return
		}
		again, err := hipArches(strings.Join(got, ","))
		if err != nil || strings.Join(again, ",") != strings.Join(got, ",") {
			t.Errorf("%q became %q and then %q, %v", s, got, again, err)
		}
		if strings.ContainsAny(strings.Join(got, ""), " ,;\n\"'$") {
			t.Errorf("%q has what no list of architectures has", got)
		}
	})
}
