package statefile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

type content struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"` // of something more
}

func named(c content) error {
	if c.Name == "" {
		return errors.New("it lacks a name")
	}
	return nil
}

var file = File[content]{Path: "/var/lib/x/state.json", Mode: 0o600, Valid: named}

func TestContentIsReadAsWritten(t *testing.T) {
	r := host.Root(t.TempDir())
	got, err := file.Read(r)
	require.NoError(t, err)
	require.Zero(t, got, "missing")
	want := content{Name: "a", Version: "8.2.5"}
	require.NoError(t, file.Write(r, want))
	data, err := r.ReadFile(file.Path)
	require.NoError(t, err)
	require.Equal(t, `{"format_version":1,"name":"a","version":"8.2.5"}`+"\n", string(data))
	got, err = file.Read(r)
	require.NoError(t, err)
	require.Equal(t, want, got)
	st, err := r.Lstat(file.Path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
	require.NoError(t, file.Remove(r))
	require.False(t, r.Exists(file.Path))
}

func TestFileWithoutVersionIsRead(t *testing.T) {
	got, err := file.Decode([]byte(` { "name": "a", "later": 1 }`))
	require.NoError(t, err)
	require.Equal(t, content{Name: "a"}, got)
	list := File[[]content]{Path: "/list"}
	data, err := list.Encode([]content{{Name: "a"}})
	require.NoError(t, err)
	require.Equal(t, `[{"name":"a"}]`+"\n", string(data))
	data, err = File[struct{}]{}.Encode(struct{}{})
	require.NoError(t, err)
	require.Equal(t, `{"format_version":1}`+"\n", string(data))
}

func TestDamagedFile(t *testing.T) {
	disposable := file
	disposable.Disposable = true
	for _, text := range []string{"", "{", "[]", `{"name":1}`, `{}`} {
		_, err := file.Decode([]byte(text))
		require.ErrorIs(t, err, ErrDamaged, text)
		require.ErrorContains(t, err, file.Path)
		got, err := disposable.Decode([]byte(text))
		require.NoError(t, err)
		require.Zero(t, got)
	}
	r := host.Root(t.TempDir())
	require.NoError(t, r.MkdirAll("/var/lib/x", 0o755))
	require.NoError(t, syscall.Mkfifo(r.Path(file.Path), 0o600))
	_, err := file.Read(r)
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, file.Write(r, content{Name: "a"}), "what is not a file is replaced")
}

func TestNewerFileIsNeitherReadNorReplaced(t *testing.T) {
	for _, text := range []string{
		`{"format_version":3,"name":"a"}`, "{\n  \"format_version\": 3,\n  \"name\": 7\n}\n",
	} {
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, file.Path, text)
		f := file
		f.Version, f.Disposable = 2, true
		_, err := f.Read(r)
		var newer *rawjson.NewerError
		require.ErrorAs(t, err, &newer)
		require.NotErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "cannot use /var/lib/x/state.json: it has format 3 of a later version, "+
			"and this one reads format 2: install the later version again, or move the file away")
		require.ErrorAs(t, f.Write(r, content{Name: "b"}), &newer)
		require.ErrorAs(t, f.Remove(r), &newer)
		data, err := os.ReadFile(r.Path(file.Path))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		f.Version, f.Valid = 3, nil
		_, err = f.Read(r)
		require.NoError(t, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format_version":1,"name":"a"}`))
	f.Add([]byte(`{"format_version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := file.Decode(data)
		if err != nil {
			require.Zero(t, got)
			return
		}
		out, err := file.Encode(got)
		require.NoError(t, err)
		back, err := file.Decode(out)
		require.NoError(t, err)
		require.Equal(t, got, back)
	})
}
