package web

import (
	"maps"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

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
