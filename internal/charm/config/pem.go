package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"strings"
)

// pemText returns an option for which Concourse needs the path of a file. It takes paths and
// PEM text (D28). The charm writes PEM text into a file.
func pemText(where in, name string, check func(string) error) Option {
	o := env(where, Option{Name: name})
	return env(where, text(name, "", func(c *Config, s string) error {
		switch {
		case s == "":
			return nil
		case !strings.Contains(s, "-----BEGIN"):
			return o.paths(c, s)
		}
		if err := check(s); err != nil {
			return err
		}
		if c.Web.Files == nil {
			c.Web.Files = map[string]string{}
		}
		c.Web.Files[o.Env] = s + "\n"
		return nil
	}))
}

// paths takes several paths with commas between them, like Concourse.
func (o Option) paths(c *Config, s string) error {
	paths, err := list(s, func(p string) error {
		if !path.IsAbs(p) || !printable(p) {
			return errors.New("the value is not a path on the unit or PEM text; " +
				"give a file's text with <option>=@<file>")
		}
		return nil
	})
	if err == nil {
		o.write(c, strings.Join(paths, ","))
	}
	return err
}

// certificates checks PEM text that must contain only certificates, at least one.
func certificates(s string) error {
	return blocks(s, func(i int, b *pem.Block) error {
		if b.Type != "CERTIFICATE" {
			return fmt.Errorf("PEM block %d is a %s; want certificates only", i, b.Type)
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return fmt.Errorf("PEM block %d is not a readable certificate", i)
		}
		return nil
	})
}

// privateKey checks one private key without a passphrase: a service cannot enter one.
func privateKey(s string) error {
	keys := 0
	err := blocks(s, func(i int, b *pem.Block) error {
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["Proc-Type"] != "":
			return errors.New("the key has a passphrase; write one without, as openssl pkey makes it")
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			keys++
		case b.Type != "EC PARAMETERS":
			return fmt.Errorf("PEM block %d is not a private key", i)
		}
		return nil
	})
	if err == nil && keys != 1 {
		err = fmt.Errorf("the PEM text has %d private keys; want one", keys)
	}
	return err
}

// blocks calls f with the number (from 1) and the content of each PEM block. It refuses text
// outside of blocks, because Concourse would ignore it.
func blocks(s string, f func(i int, b *pem.Block) error) error {
	rest := []byte(s)
	for i := 1; len(rest) > 0; i++ {
		b, after := pem.Decode(rest)
		read := string(rest[:len(rest)-len(after)])
		if b == nil || !strings.HasPrefix(read, "-----BEGIN") || strings.Count(read, "-----BEGIN") > 1 {
			return fmt.Errorf("PEM block %d is damaged: want its lines as the file has them, from -----BEGIN to "+
				"-----END", i)
		}
		if err := f(i, b); err != nil {
			return err
		}
		rest = []byte(strings.TrimSpace(string(after)))
	}
	return nil
}
