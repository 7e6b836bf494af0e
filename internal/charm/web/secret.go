package web

import (
	"maps"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse"
)

// PredecessorPassword is the first user's that the Python charm keeps in the
// peers' bag, "" where there is none of use.
func PredecessorPassword(f model.Facts) string {
	if f.Peer == nil || concourse.CheckPassword(f.Peer.Remote[model.AdminPassword]) != nil {
		return ""
	}
	return f.Peer.Remote[model.AdminPassword]
}

// secretContent is what the application's secret should hold. A new encryption
// key makes the one before the old one, with which Concourse reads what it then
// encrypts anew (D29). A password of the Python charm is the one in use, also
// where that charm was gone back to and made another.
func secretContent(o Observed) map[string]string {
	s := maps.Clone(o.Facts.Web.Secret)
	if s == nil {
		s = map[string]string{}
	}
	if key := o.Config.EncryptionKey; o.Facts.Leader && key != s[model.EncryptionKey] {
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

// Rotated are the keys that rotate-keys makes anew.
var Rotated = map[string][]string{
	"session":        {model.SessionKey},
	"tsa-host":       {model.TSAHostKey},
	"admin-password": {model.AdminPassword},
	"all":            {model.SessionKey, model.TSAHostKey, model.AdminPassword},
}

// rotatedBy is the value of rotate-keys that makes one part of the secret anew.
func rotatedBy(part string) string {
	for name, parts := range Rotated {
		if len(parts) == 1 && parts[0] == part {
			return name
		}
	}
	return "all"
}
