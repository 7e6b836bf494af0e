package deviceplugin

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// clusterEntry and userEntry are the fields of a kubeconfig that this program uses.
type clusterEntry struct {
	Server     string
	ServerName string `yaml:"tls-server-name"`
	CA         string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
}

type userEntry struct {
	Token     string
	TokenFile string `yaml:"tokenFile"`
	Cert      string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	Key       string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	Exec      any
}

// decodeKubeconfig returns the cluster of a kubeconfig's current context. Paths in it are
// relative to the file. It refuses secrets that every user can read.
func decodeKubeconfig(data []byte, file string) (c cluster, err error) {
	var f struct {
		Current  string `yaml:"current-context"`
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
		Clusters []struct {
			Name    string
			Cluster clusterEntry
		}
		Users []struct {
			Name string
			User userEntry
		}
	}
	if err := yaml.Unmarshal(data, &f); err != nil {
		return c, err
	}
	var of *clusterEntry
	var user *userEntry
	for _, x := range f.Contexts {
		if x.Name != f.Current {
			continue
		}
		for i := range f.Clusters {
			if f.Clusters[i].Name == x.Context.Cluster {
				of = &f.Clusters[i].Cluster
			}
		}
		for i := range f.Users {
			if f.Users[i].Name == x.Context.User {
				user = &f.Users[i].User
			}
		}
	}
	if of == nil || user == nil {
		return c, fmt.Errorf("its current-context %q lacks a cluster or a user", f.Current)
	}
	at, err := url.Parse(of.Server)
	switch {
	case err != nil || at.Scheme != "https" || at.Host == "":
		return c, fmt.Errorf("server %q is not an https URL", of.Server)
	case of.Insecure:
		return c, errors.New("it has insecure-skip-tls-verify; name a certificate-authority instead")
	}
	c.server = strings.TrimSuffix(of.Server, "/")
	ca, err := content("certificate-authority", of.CAData, of.CA, file)
	if err != nil {
		return c, err
	}
	if c.tls, err = tlsConfig(ca); err != nil {
		return c, err
	}
	c.tls.ServerName = of.ServerName
	return c, c.logIn(*user, file)
}

// logIn adds the credentials of a user.
func (c *cluster) logIn(u userEntry, file string) error {
	secret := file // the file with the secret
	switch {
	case u.Token+u.TokenFile != "":
		if u.TokenFile != "" {
			secret = beside(file, u.TokenFile)
		}
	case u.Key != "" && u.KeyData == "":
		secret = beside(file, u.Key)
	case u.KeyData == "" && u.Exec != nil:
		return errors.New("its user has an exec plugin, which this program does not run; use a client certificate or " +
			"a token")
	case u.KeyData == "":
		return errors.New("its user lacks a client certificate or a token")
	}
	st, err := os.Stat(secret)
	switch {
	case err != nil:
		return err
	case st.Mode().Perm()&0o007 != 0:
		return fmt.Errorf("every user can read %s; run: chmod 600 %[1]s", secret)
	}
	switch {
	case u.TokenFile != "":
		data, err := os.ReadFile(secret)
		c.token = strings.TrimSpace(string(data))
		return err
	case u.Token != "":
		c.token = u.Token
		return nil
	}
	cert, err := content("client-certificate", u.CertData, u.Cert, file)
	if err != nil {
		return err
	}
	key, err := content("client-key", u.KeyData, u.Key, file)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("cannot read its client certificate: %w", err)
	}
	c.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// content returns an entry of a kubeconfig: its data, or the content of its file.
func content(name, data, path, kubeconfig string) ([]byte, error) {
	switch {
	case data != "":
		decoded, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("cannot decode %s-data: %w", name, err)
		}
		return decoded, nil
	case path != "":
		return os.ReadFile(beside(kubeconfig, path))
	}
	return nil, fmt.Errorf("%s is missing", name)
}

// beside returns a path that is relative to the folder of a file.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// tlsConfig returns a configuration that trusts only this authority.
func tlsConfig(ca []byte) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("its certificate-authority has no certificate in PEM")
	}
	return &tls.Config{RootCAs: pool}, nil
}
