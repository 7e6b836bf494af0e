//go:build !windows

package worker

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// tsa serves SSH with the key "tsa" and accepts the key "worker".
func tsa(t *testing.T) (address string) {
	t.Helper()
	private, _ := hosttest.Key("tsa")
	signer, problem := beacon.Signer([]byte(private))
	require.Empty(t, problem)
	_, public := hosttest.Key("worker")
	accepted, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	require.NoError(t, err)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(accepted.Marshal()) {
			return nil, errKeyRefused
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, channels, requests, err := ssh.NewServerConn(c, config); err == nil {
					go ssh.DiscardRequests(requests)
					for range channels {
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestWebIsKnownByItsKeyAndKnowsTheWorker(t *testing.T) {
	at := tsa(t)
	_, web := hosttest.Key("tsa")
	private := func(name string) []byte {
		p, _ := hosttest.Key(name)
		return []byte(p)
	}
	require.NoError(t, checkTSA(at, web, nil))
	require.NoError(t, checkTSA(at, web, private("worker")))
	require.ErrorIs(t, checkTSA(at, web, private("stranger")), errKeyRefused)
	_, other := hosttest.Key("stranger")
	err := checkTSA(at, other, private("worker"))
	require.ErrorIs(t, err, errWrongHostKey)
	require.ErrorContains(t, err, "SHA256:")
	_, public, _ := strings.Cut(web, " ")
	require.ErrorContains(t, checkTSA(at, public, nil), "cannot read the key of the web")
	require.ErrorContains(t, checkTSA(at, web, []byte("x")), "cannot use the worker's private key")
	require.ErrorContains(t, checkTSA("127.0.0.1:1", web, nil), "cannot connect to the web")
}
