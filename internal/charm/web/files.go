package web

import (
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
)

// Certify holds the private key of this web and its certificate request.
type Certify struct {
	Key, Request string // PEM
}

// observeCertify reads the private key, or makes one, and makes the request. The same names
// give the same request. Without a name it makes no request: Juju may not have assigned an
// address yet.
func observeCertify(r host.Root, cfg config.Config, w *model.Web) (c Certify, err error) {
	if !cfg.Web.TLSEnabled || w == nil {
		return c, nil
	}
	names := webNames(cfg, w)
	if len(names) == 0 {
		return c, nil
	}
	files := concourse.WebFiles(cfg.SharedStorage != config.StorageNone)
	if c.Key, err = role.ReadOptional(r, files.TLSKey()); err != nil {
		return c, err
	}
	if c.Key == "" {
		c.Key, c.Request, err = relation.NewCertificateRequest(names)
	} else {
		c.Request, err = relation.CertificateRequestFor(c.Key, names)
	}
	return c, jujuerrors.Annotate(err, "cannot make the certificate request")
}

// webNames returns the names for the certificate. The first one is the common name.
func webNames(cfg config.Config, w *model.Web) (names []string) {
	if u, err := url.Parse(cfg.Web.ExternalURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	if w.Address != "" && !slices.Contains(names, w.Address) {
		names = append(names, w.Address)
	}
	return names
}

// certificateOf returns the certificate for the request, and whether there is one.
func certificateOf(o Observed) (cert relation.Certificate, ok bool, causes []status.Cause) {
	if !o.Config.Web.TLSEnabled {
		return cert, false, nil
	}
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	l := o.Facts.Web.Certificates
	if l == nil {
		missing := status.Block("tls-enabled: a certificate is missing")
		if c := o.Facts.Commands(); c.WithoutJuju() {
			return cert, false, []status.Cause{missing.Explain("put a proxy with a certificate in front, and set external-url").
				Run(c.ResetOption("tls-enabled"))}
		}
		return cert, false, []status.Cause{missing.Explain("without a certificate set tls-enabled=false").
			Run("juju integrate " + app + ":certificates <certificates application>")}
	}
	cert, ok, problems := relation.ParseCertificates(l.Remote, o.Certify.Request)
	for _, p := range problems {
		causes = append(causes, status.Wait("certificates: %s", p))
	}
	if !ok {
		causes = append(causes, status.Wait("Waiting for the certificate of %s", l.App))
	}
	return cert, ok, causes
}

// webFiles returns the files that the web reads, without its environment.
func webFiles(o Observed, paths concourse.WebPaths, db relation.Database) (files []resource.File,
	causes []status.Cause) {
	own := func(path, data string, mode fs.FileMode) {
		files = append(files, resource.File{Path: path, Data: []byte(data), Mode: mode, Owner: concourse.WebUser})
	}
	if db.CA != "" {
		own(paths.DatabaseCA(), db.CA, 0o644)
	}
	v, ok, problems := vaultOf(o)
	if ok && v.CA != "" {
		own(paths.VaultCA(), v.CA, 0o644)
	}
	for _, p := range problems {
		causes = append(causes, status.Wait("vault-kv: %s", p))
	}
	if o.Facts.Web.Vault != nil && !ok && len(problems) == 0 {
		causes = append(causes, status.Warn("vault-kv: no credentials for this unit yet").
			Explain("run the action of Vault's charm that authorizes it"))
	}
	for _, key := range optionFiles(o) {
		own(optionFile(paths, key), o.Config.Web.Files[key], 0o600)
	}
	cert, ok, more := certificateOf(o)
	if ok {
		own(paths.TLSCert(), cert.Cert+cert.Chain, 0o644)
	}
	return files, append(causes, more...)
}

// certifyFiles returns the file with the private key. It is written even if the web cannot
// run: otherwise the next hook would make another key and another request.
func certifyFiles(o Observed, paths concourse.WebPaths) []resource.File {
	if o.Certify.Key == "" {
		return nil
	}
	return []resource.File{{Path: paths.TLSKey(), Data: []byte(o.Certify.Key), Mode: 0o600, Owner: concourse.WebUser}}
}

// optionFiles returns the variables with the path of a file of the charm. Vault's variables
// are left out if a relation provides Vault.
func optionFiles(o Observed) []string {
	keys := slices.Sorted(maps.Keys(o.Config.Web.Files))
	if _, related, _ := vaultOf(o); related {
		keys = slices.DeleteFunc(keys, func(k string) bool { return strings.HasPrefix(k, "CONCOURSE_VAULT_") })
	}
	return keys
}

// optionFile returns the path for the text of an option that Concourse reads from a file.
func optionFile(p concourse.WebPaths, env string) string {
	ending := ".pem"
	if env == config.ResourceDefaults {
		ending = ".yml"
	}
	return p.KeyDir() + "/" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(env, "CONCOURSE_"), "_",
		"-")) + ending
}

func vaultOf(o Observed) (relation.Vault, bool, []string) {
	l := o.Facts.Web.Vault
	if l == nil {
		return relation.Vault{}, false, nil
	}
	return relation.ParseVault(l.Remote, l.Own["nonce"], l.Secrets)
}

// vaultEnv returns the web's environment for Vault. A relation has priority over the
// options, except for the path prefix and the cache (D60).
func vaultEnv(o Observed, paths concourse.WebPaths) map[string]string {
	const prefix, cache = "CONCOURSE_VAULT_PATH_PREFIX", "CONCOURSE_VAULT_ENABLE_KV_MOUNT_CACHE"
	options := o.Config.Web.VaultEnv
	v, ok, _ := vaultOf(o)
	if !ok {
		if options["CONCOURSE_VAULT_URL"] == "" {
			return nil
		}
		return options
	}
	env := maps.Clone(v.Env(paths.VaultCA()))
	if p := options[prefix]; p != "" {
		env[prefix] = "/" + strings.TrimLeft(p, "/")
	}
	if c := options[cache]; c != "" {
		env[cache] = c
	}
	return env
}

// webDatabase returns the database for Concourse.
func webDatabase(db relation.Database, paths concourse.WebPaths) concourse.WebDatabase {
	d := concourse.WebDatabase{Host: db.Host, Port: db.Port, User: db.User, Password: db.Password,
		Name: db.Name, SSLMode: db.SSLMode()}
	if db.CA != "" {
		d.CAFile = paths.DatabaseCA()
	}
	return d
}

// repairConfig returns the database for the repair of rights.
func repairConfig(db relation.Database) postgres.Config {
	return postgres.Config{Host: db.Host, Port: db.Port, User: db.User, Password: db.Password, Name: db.Name,
		SSLMode: db.SSLMode(), CA: db.CA}
}

// PredecessorPassword returns the first user's password from the peers' databag, in which
// the Python charm keeps it. It returns "" if the password is missing or unusable.
func PredecessorPassword(f model.Facts) string {
	if f.Peer == nil || concourse.CheckPassword(f.Peer.Remote[model.AdminPassword]) != nil {
		return ""
	}
	return f.Peer.Remote[model.AdminPassword]
}

// secretContent returns the desired content of the application's secret. If the encryption
// key changes, the previous key becomes the old one, with which Concourse reads the data to
// encrypt it again (D29). A password of the Python charm has priority: after a downgrade to
// that charm and back, its password is the one in use.
func secretContent(o Observed) map[string]string {
	s := maps.Clone(o.Facts.Web.Secret)
	if s == nil {
		s = map[string]string{}
	}
	if key := o.Config.Web.EncryptionKey; o.Facts.Leader && key != s[model.EncryptionKey] {
		s[model.OldEncryptionKey], s[model.EncryptionKey] = s[model.EncryptionKey], key
	}
	if p := PredecessorPassword(o.Facts); o.Facts.Leader && p != "" {
		s[model.AdminPassword] = p
	}
	for key, value := range s {
		if value == "" {
			delete(s, key)
		}
	}
	return s
}

// Rotated lists the parts of the secret that each value of rotate-keys replaces.
var Rotated = map[string][]string{
	"session":        {model.SessionKey},
	"tsa-host":       {model.TSAHostKey},
	"admin-password": {model.AdminPassword},
	"all":            {model.SessionKey, model.TSAHostKey, model.AdminPassword},
}

// rotatedBy returns the value of rotate-keys that replaces one part of the secret.
func rotatedBy(part string) string {
	for name, parts := range Rotated {
		if len(parts) == 1 && parts[0] == part {
			return name
		}
	}
	return "all"
}
