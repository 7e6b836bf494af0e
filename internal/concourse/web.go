package concourse

import (
	"path"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse/release"
)

// The web's systemd unit and the user that it runs as.
const (
	WebUnit     = "concourse-server.service"
	WebUnitFile = "/etc/systemd/system/" + WebUnit
	WebUser     = "concourse"
)

// WebPaths is where a web keeps its own: never on storage that it shares with
// other units, as its keys and its user's id are this machine's alone (D10, D11).
type WebPaths struct{ Dir string }

// WebFiles is HomeDir, or a folder of its own where HomeDir is shared.
func WebFiles(shared bool) WebPaths {
	if shared {
		return WebPaths{"/var/lib/concourse-web"}
	}
	return WebPaths{release.HomeDir}
}

// Env is the unit's environment file.
func (p WebPaths) Env() string { return path.Join(p.Dir, "config.env") }

// KeyDir is the folder of everything that the web's user reads.
func (p WebPaths) KeyDir() string { return path.Join(p.Dir, "keys") }

// TSAHostKey is the private key that workers know the TSA by.
func (p WebPaths) TSAHostKey() string { return path.Join(p.KeyDir(), "tsa_host_key") }

// TSAHostKeyPublic is its public half.
func (p WebPaths) TSAHostKeyPublic() string { return p.TSAHostKey() + ".pub" }

// SessionKey signs the tokens of users and of the TSA.
func (p WebPaths) SessionKey() string { return path.Join(p.KeyDir(), "session_signing_key") }

// AuthorizedKeys has the public keys of the workers that may register.
func (p WebPaths) AuthorizedKeys() string { return path.Join(p.KeyDir(), "authorized_worker_keys") }

// TeamKeys has those of workers that are for one team each.
func (p WebPaths) TeamKeys() string { return path.Join(p.KeyDir(), "team_worker_keys.yml") }

// UnusedWorkerKey is the public key of a worker that the Python charm made, and
// authorized, on each of its webs.
func (p WebPaths) UnusedWorkerKey() string { return path.Join(p.KeyDir(), "worker_key.pub") }

// DatabaseCA is the CA of the database's certificate.
func (p WebPaths) DatabaseCA() string { return path.Join(p.KeyDir(), "database-ca.pem") }

// TLSCert is the web's certificate and its chain.
func (p WebPaths) TLSCert() string { return path.Join(p.KeyDir(), "tls.crt") }

// TLSKey is the certificate's private key.
func (p WebPaths) TLSKey() string { return path.Join(p.KeyDir(), "tls.key") }

// VaultCA is the CA of Vault's certificate.
func (p WebPaths) VaultCA() string { return path.Join(p.KeyDir(), "vault-ca.pem") }

// Folders are the directories of a web. They come after the user. A HomeDir
// that is shared is not among them: its mode is its owner's (D11).
func (p WebPaths) Folders() []plan.Resource {
	return []plan.Resource{
		resource.Dir{Path: p.Dir, Mode: 0o755},
		resource.Dir{Path: p.KeyDir(), Mode: 0o700, Owner: WebUser},
	}
}
