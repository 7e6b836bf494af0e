package worker

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// dialTimeout bounds one connection.
const dialTimeout = 10 * time.Second

// errWrongHostKey reports another server than the web, or a web with new keys.
var errWrongHostKey = errors.New("wrong host key")

// errKeyRefused reports a worker key that the web does not accept yet.
var errKeyRefused = errors.New("the web does not accept the worker's key")

// checkTSA connects to the web's SSH server and compares its key with public, an OpenSSH
// line. With a private key it also logs in, and requests nothing.
func checkTSA(host, public string, private []byte) error {
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		return fmt.Errorf("cannot read the key of the web: %w", err)
	}
	conn, err := net.DialTimeout("tcp", host, dialTimeout)
	if err != nil {
		return fmt.Errorf("cannot connect to the web: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	same := false
	config := &ssh.ClientConfig{User: "beacon", HostKeyAlgorithms: algorithmsOf(want),
		HostKeyCallback: func(_ string, _ net.Addr, got ssh.PublicKey) error {
			if same = bytes.Equal(got.Marshal(), want.Marshal()); !same {
				return fmt.Errorf("%w: %s has %s, and the file has %s", errWrongHostKey, host,
					ssh.FingerprintSHA256(got), ssh.FingerprintSHA256(want))
			}
			return nil
		}}
	if private != nil {
		signer, problem := beacon.Signer(private)
		if problem != "" {
			return fmt.Errorf("cannot use the worker's private key: %s", problem)
		}
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	}
	c, channels, requests, err := ssh.NewClientConn(conn, host, config)
	switch {
	case err == nil:
		return ssh.NewClient(c, channels, requests).Close()
	case errors.Is(err, errWrongHostKey) || !same:
		return fmt.Errorf("cannot trust the web: %w", err)
	case private == nil && strings.Contains(err.Error(), "unable to authenticate"):
		return nil
	case strings.Contains(err.Error(), "unable to authenticate"):
		return errKeyRefused
	}
	return fmt.Errorf("cannot log in at the web: %w", err)
}

// algorithmsOf returns the signatures of a key. SSH names three for an RSA key.
func algorithmsOf(k ssh.PublicKey) []string {
	if k.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA}
	}
	return []string{k.Type()}
}
