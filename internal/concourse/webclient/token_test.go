package webclient

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswersToALogin(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		valid  bool
		life   time.Duration
	}{
		"Concourse's":          {`{"access_token":"a/b+c","token_type":"bearer","expires_in":86399,"id_token":"x"}`, true, 86399 * time.Second},
		"no life":              {`{"access_token":"a","token_type":"Bearer"}`, true, 0},
		"negative life":        {`{"access_token":"a","token_type":"bearer","expires_in":-5}`, true, 0},
		"life beyond measure":  {`{"access_token":"a","token_type":"bearer","expires_in":1e300}`, true, maxLife},
		"no token":             {`{"token_type":"bearer"}`, false, 0},
		"token with a newline": {`{"access_token":"a\r\nX: y","token_type":"bearer"}`, false, 0},
		"another kind":         {`{"access_token":"a","token_type":"mac"}`, false, 0},
	} {
		var a tokenAnswer
		require.NoError(t, json.Unmarshal([]byte(c.answer), &a), name)
		require.Equal(t, c.valid, a.valid(), name)
		require.Equal(t, c.life, a.life(), name)
	}
}

func FuzzToken(f *testing.F) {
	f.Add(`{"access_token":"a/b","token_type":"bearer","expires_in":86399}`)
	f.Add(`{"access_token":"a","token_type":"bearer","expires_in":1e308}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, answer string) {
		var a tokenAnswer
		if json.Unmarshal([]byte(answer), &a) != nil || !a.valid() {
			return
		}
		require.NotEmpty(t, a.Token)
		require.False(t, strings.ContainsAny(a.Token, "\r\n \x00"), "it goes into a header")
		require.GreaterOrEqual(t, a.life(), 0*a.life())
		require.LessOrEqual(t, a.life(), maxLife)
	})
}
