package release

import (
	"encoding/json"
	"errors"

	"concourse-ci-machine/internal/base/host"
)

// refusal is a download that was verified and turned out to be another version
// than its name says. It is known by its digest, as an attached release is: as
// long as that is the checksum that the tarball has to have, it is neither
// fetched nor unpacked again.
type refusal struct {
	SHA256  string `json:"sha256"`
	Version string `json:"version"` // what it is
}

func (r Release) refusalFile() string { return downloadDir + "/" + r.name() + ".refused.json" }

// refuse notes that the tarball of that digest is another version and throws it
// away. The note comes first: a run that is killed after it unpacks once more.
func (r Release) refuse(root host.Root, sum, version string) error {
	data, err := json.Marshal(refusal{SHA256: sum, Version: version})
	if err != nil {
		return err
	}
	if err := root.WriteFile(r.refusalFile(), append(data, '\n'), 0o600); err != nil {
		return err
	}
	tarball := downloadDir + "/" + r.name()
	return errors.Join(root.Remove(tarball), root.Remove(tarball+".sha256"))
}

// refusedBefore is the error of a tarball of that digest, nil for one that was
// not refused. The checksum is forgotten, so that the next run asks for it anew
// and notices when the mirror has another tarball.
func (r Release) refusedBefore(root host.Root, sum string) error {
	var k refusal
	data, err := root.ReadFile(r.refusalFile())
	if err != nil || json.Unmarshal(data, &k) != nil || k.SHA256 != sum {
		return nil // a note that can't be read costs a download
	}
	return errors.Join(&VersionError{Path: r.name(), Want: r.Version, Got: k.Version},
		root.Remove(downloadDir+"/"+r.name()+".sha256"))
}
