package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsTheOneOfTheModuleWithoutMake(t *testing.T) {
	for of, want := range map[string]string{"v1.2.3": "1.2.3", "(devel)": "dev", "": "dev",
		"v0.0.0-20261128141754-a31dbf22f500+dirty": "0.0.0-20261128141754-a31dbf22f500+dirty"} {
		require.Equal(t, want, ofModule(&debug.BuildInfo{Main: debug.Module{Version: of}}, true), of)
	}
	require.Equal(t, "dev", ofModule(nil, false))
	require.Equal(t, "dev", Version(), "a test has no version")
}
