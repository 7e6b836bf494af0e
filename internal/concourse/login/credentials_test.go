package login

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarshalledCredentialsAreReadAsTheyWere(t *testing.T) {
	for _, c := range []Credentials{
		{URL: "http://127.0.0.1:8080", Username: "admin", Password: "s"},
		{URL: "https://[2001:db8::1]:443/ci/", Username: `a"\:b`, Password: "=\n'\"\\<&> ü", CAFile: "/etc/ca.pem", ServerName: "ci.example.com"},
	} {
		data, err := c.Marshal()
		require.NoError(t, err)
		got, err := Parse(data)
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	data, err := Credentials{URL: "http://10.0.0.2:8080", Username: "admin", Password: "<&>"}.Marshal()
	require.NoError(t, err)
	require.Equal(t, "{\n  \"url\": \"http://10.0.0.2:8080\",\n  \"username\": \"admin\",\n  \"password\": \"<&>\"\n}\n", string(data))
}

func TestWrongCredentialsAreNamedAndNotQuoted(t *testing.T) {
	const rest = `,"username":"u","password":"hunter2"}`
	for text, want := range map[string]string{
		``:                                                          "it ends too early",
		`{"url":"http://a"`:                                         "it ends too early",
		`password=hunter2`:                                          "syntax error at byte 1",
		`{"password":["hunter2"]}`:                                  "wrong type at byte 13",
		`{"hunter2":"x"}`:                                           "an unknown key",
		`{"url":"http://a"` + rest + ` {}`:                          "data follows the first",
		`{"url":""` + rest:                                          "url is missing",
		`{"url":"127.0.0.1:8080"` + rest:                            "url is not one like",
		`{"url":"ftp://a"` + rest:                                   "url is not one like",
		`{"url":"http://"` + rest:                                   "url is not one like",
		`{"url":"http://:8080"` + rest:                              "url is not one like",
		`{"url":"http://a b"` + rest:                                "url is not one like",
		`{"url":"http://u:hunter2@a"` + rest:                        "url has a user in it",
		`{"url":"http://a/?x=hunter2"` + rest:                       "url has a query",
		`{"url":"http://a/#hunter2"` + rest:                         "url has a query or fragment",
		`{"url":"http://a","password":"hunter2"}`:                   "username is missing",
		`{"url":"http://a","username":"u"}`:                         "password is missing",
		`{"url":"http://a","ca-file":"/ca"` + rest:                  "need an https url",
		`{"url":"http://a","server-name":"x"` + rest:                "need an https url",
		`{"url":"https://a","ca-file":"ca"` + rest:                  "ca-file is not an absolute path",
		`{"url":"https://a","server-name":"x\ny"` + rest:            "control character",
		`{"url":"http://a","username":"a\rb","password":"hunter2"}`: "control character",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2", text)
	}
	_, err := Credentials{URL: "http://a", Username: "u", Password: "\xff"}.Marshal()
	require.EqualError(t, err, "a value is not UTF-8")
}

func TestPrintedCredentialsHaveNoPassword(t *testing.T) {
	c := Credentials{URL: "http://a", Username: "u", Password: "hunter2"}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v %+v %#v", &c, &c, &c), fmt.Sprint([]Credentials{c})} {
		require.NotContains(t, s, "hunter2")
	}
}
