package release

// TestedVersion is the Concourse version that this charm was tested with. It
// is what runs where neither the operator nor a web names a version.
const TestedVersion = "8.2.5"

// Paths of the machine. A release's own paths go through Link, so that an
// upgrade changes one link and nothing else. HomeDir may be shared with other units;
// the link never is, so that each unit upgrades by itself and none changes what
// another runs (D50).
const (
	HomeDir = "/var/lib/concourse"
	Dir     = HomeDir + "/releases"
	Link    = "/opt/concourse-ci-machine/release"
	BinDir  = Link + "/bin"
)
