package concourse

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// The web's systemd unit and its user.
const (
	WebUnit     = "concourse-server.service"
	WebUnitFile = "/etc/systemd/system/" + WebUnit
	WebUser     = "concourse"
)

// WebPaths has the paths of a web's files. They are never on storage shared with other
// units, because its keys and its user's id belong to one machine (D10, D11).
type WebPaths struct{ Dir string }

// WebFiles returns SeparateWebFiles if HomeDir is shared, otherwise HomeWebFiles.
func WebFiles(shared bool) WebPaths {
	if shared {
		return SeparateWebFiles()
	}
	return HomeWebFiles()
}

// HomeWebFiles returns the files in HomeDir.
func HomeWebFiles() WebPaths { return WebPaths{release.HomeDir} }

// SeparateWebFiles returns the files in a folder that is never shared.
func SeparateWebFiles() WebPaths { return WebPaths{"/var/lib/concourse-web"} }

// Env returns the path of the unit's environment file.
func (p WebPaths) Env() string { return path.Join(p.Dir, "config.env") }

// KeyDir returns the folder of all files that the web's user reads.
func (p WebPaths) KeyDir() string { return path.Join(p.Dir, "keys") }

// TSAHostKey returns the path of the private key that identifies the TSA to workers.
func (p WebPaths) TSAHostKey() string { return path.Join(p.KeyDir(), "tsa_host_key") }

// TSAHostKeyPublic returns the path of its public half.
func (p WebPaths) TSAHostKeyPublic() string { return p.TSAHostKey() + ".pub" }

// SessionKey returns the path of the key that signs tokens of users and of the TSA.
func (p WebPaths) SessionKey() string { return path.Join(p.KeyDir(), "session_signing_key") }

// AuthorizedKeys returns the path of the public keys of workers that may register.
func (p WebPaths) AuthorizedKeys() string { return path.Join(p.KeyDir(), "authorized_worker_keys") }

// TeamKeys returns the path of the public keys of workers for one team each.
func (p WebPaths) TeamKeys() string { return path.Join(p.KeyDir(), "team_worker_keys.yml") }

// UnusedWorkerKey returns the path of the public worker key that the Python charm made and
// authorized on each web.
func (p WebPaths) UnusedWorkerKey() string { return path.Join(p.KeyDir(), "worker_key.pub") }

// DatabaseCA returns the path of the CA of the database's certificate.
func (p WebPaths) DatabaseCA() string { return path.Join(p.KeyDir(), "database-ca.pem") }

// TLSCert returns the path of the web's certificate and its chain.
func (p WebPaths) TLSCert() string { return path.Join(p.KeyDir(), "tls.crt") }

// TLSKey returns the path of the certificate's private key.
func (p WebPaths) TLSKey() string { return path.Join(p.KeyDir(), "tls.key") }

// VaultCA returns the path of the CA of Vault's certificate.
func (p WebPaths) VaultCA() string { return path.Join(p.KeyDir(), "vault-ca.pem") }

// Folders returns the directories of a web, which come after the user. A shared HomeDir is
// not included, because its mode belongs to its owner (D11).
func (p WebPaths) Folders() []plan.Resource {
	return []plan.Resource{
		resource.Dir{Path: p.Dir, Mode: 0o755},
		resource.Dir{Path: p.KeyDir(), Mode: 0o700, Owner: WebUser},
	}
}

// WebUnitFileFor returns the web's unit. flags are further arguments of its command line,
// taken literally (D28).
func WebUnitFileFor(p WebPaths, flags []string) (resource.File, error) {
	var words strings.Builder
	for _, f := range flags {
		quoted, err := quoteUnitWord(f)
		if err != nil {
			return resource.File{}, fmt.Errorf("cannot pass a flag to the web: %w", err)
		}
		words.WriteString(" " + quoted)
	}
	data, err := templates.Render(WebUnit, map[string]string{
		"User":        WebUser,
		"Dir":         p.Dir,
		"Env":         p.Env(),
		"OperatorEnv": OperatorEnvFile,
		"Concourse":   release.BinDir + "/concourse",
		"Flags":       words.String(),
	})
	return resource.File{Path: WebUnitFile, Data: data, Mode: 0o644}, err
}

// quoteUnitWord quotes one argument of a unit's command line so that systemd passes it on
// unchanged. It escapes quotes and backslashes (systemd.syntax(7)), % for specifiers and $
// for variables (systemd.service(5)).
func quoteUnitWord(s string) (string, error) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return "", errors.New("it holds a line end, another control character or bytes that are not UTF-8")
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(s) + `"`, nil
}

// RefusedFlag describes a flag that concourse web of a release refuses.
type RefusedFlag struct {
	Flag string `json:"flag"` // --flag or --flag=value
	Why  string `json:"why"`  // the release's error, one line
}

// RefusedFlags returns the flags that the installed release refuses: unknown ones, and ones
// with a value of a wrong form. With --help as the last argument, concourse web parses all
// flags before it and then prints its help. It starts nothing.
func RefusedFlags(ctx context.Context, h host.Host, flags []string) (refused []RefusedFlag, err error) {
	for _, flag := range flags {
		_, err := h.Run(ctx, host.Command{Argv: []string{h.Path(release.BinDir + "/concourse"), "web", flag, "--help"},
			ReadOnly: true, Deadline: helpDeadline})
		if failed, is := errors.AsType[*host.CommandError](err); is && failed.Code == 1 {
			refused = append(refused, RefusedFlag{flag, oneLine(strings.TrimPrefix(failed.LastLine(), startError))})
		} else if err != nil {
			return nil, err
		}
	}
	return refused, nil
}
