package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// cleanTime bounds the removal of the copied package after an interrupted installation.
const cleanTime = 10 * time.Second

// commands of package managers: the format of their packages, and the arguments that
// install a file and remove the package.
var commands = map[string]struct{ format, install, remove string }{
	"apt-get": {"deb", "env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends",
		"env DEBIAN_FRONTEND=noninteractive apt-get purge -q -y " + Package},
	"dpkg":   {"deb", "dpkg --install", "dpkg --purge " + Package},
	"dnf":    {"rpm", "dnf install -y", "dnf remove -y " + Package},
	"yum":    {"rpm", "yum install -y", "yum remove -y " + Package},
	"zypper": {"rpm", "zypper --non-interactive install --allow-unsigned-rpm", "zypper --non-interactive remove " + Package},
	"rpm":    {"rpm", "rpm --upgrade --replacepkgs", "rpm --erase " + Package},
}

// Install copies the package for a node from a file or a folder, and installs it. The file
// must fit the node.
func (n *Node) Install(ctx context.Context, from string) (err error) {
	f, err := n.Detect(ctx)
	if err != nil {
		return err
	}
	m, ok := commands[f.Manager]
	arch, known := architecture[f.Machine]
	switch {
	case f.Charm:
		return fmt.Errorf("cannot install %s on %s: a unit of the charm serves port 9401 there already", Package,
			n.Target)
	case !ok:
		return fmt.Errorf("cannot install %s on %s: it has none of apt-get, dpkg, dnf, yum, zypper and rpm", Package,
			n.Target)
	case !known:
		return fmt.Errorf("cannot install %s on %s: no package exists for %s", Package, n.Target, f.Machine)
	}
	name := fmt.Sprintf("%s_%s.%s", Package, arch, m.format)
	file, err := packageFile(from, name)
	if err != nil {
		return err
	}
	if len(f.GPUs) == 0 {
		fmt.Fprintf(n.Stderr, "%s has no AMD GPU now; the exporter shows one as soon as it is there\n", n.Target)
	}
	dir, err := n.copyFile(ctx, file, name)
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		_, failed := n.run(clean, nil, "rm -rf "+dir)
		err = errors.Join(err, failed)
	}()
	if err := n.AsRoot(ctx, f, m.install+" "+dir+"/"+name, n.Stderr); err != nil {
		return fmt.Errorf("cannot install %s on %s: %w", Package, n.Target, err)
	}
	if f, err = n.Detect(ctx); err != nil {
		return err
	}
	if !f.Active {
		return fmt.Errorf("%s %s is installed on %s and does not run; there: journalctl -u %[1]s", Package,
			f.Installed, n.Target)
	}
	host := n.Target[strings.LastIndex(n.Target, "@")+1:]
	fmt.Fprintf(n.Stdout, "%s %s runs on %s: http://%s:9401/\n", Package, f.Installed, n.Target, host)
	return nil
}

// packageFile returns the path of a package: from itself, or the file with the name in a
// folder.
func packageFile(from, name string) (string, error) {
	st, err := os.Stat(from)
	switch {
	case err == nil && st.IsDir():
		from = filepath.Join(from, name)
		_, err = os.Stat(from)
	case err == nil && filepath.Ext(from) != filepath.Ext(name):
		return "", fmt.Errorf("cannot install %s: the machine needs %s", from, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot find %s: download it from the release, or name its folder with --package=PATH",
			from)
	}
	return from, err
}

// copyFile copies a file into a new folder of the node and compares its sum there.
func (n *Node) copyFile(ctx context.Context, file, name string) (dir string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// apt reads it as another user.
	out, err := n.run(ctx, nil, "d=$(mktemp -d /tmp/gpukit.XXXXXX) && chmod 755 \"$d\" && echo \"$d\"")
	if err != nil {
		return "", fmt.Errorf("cannot copy to %s: %w", n.Target, err)
	}
	dir = strings.TrimSpace(out)
	if !remoteFolder().MatchString(dir) {
		return "", fmt.Errorf("cannot copy to %s: its login prints text before a command's output", n.Target)
	}
	h := sha256.New()
	out, err = n.run(ctx, io.TeeReader(f, h), "cat >"+dir+"/"+name+" && sha256sum "+dir+"/"+name)
	if err == nil && !strings.HasPrefix(out, fmt.Sprintf("%x ", h.Sum(nil))) {
		err = errors.New("the copy differs")
	}
	if err != nil {
		_, failed := n.run(context.WithoutCancel(ctx), nil, "rm -rf "+dir)
		return "", fmt.Errorf("cannot copy %s to %s: %w", file, n.Target, errors.Join(err, failed))
	}
	return dir, nil
}

// AsRoot runs a command as root, with sudo if necessary. Its output goes to out. On a
// terminal its errors go there, too.
func (n *Node) AsRoot(ctx context.Context, f Facts, command string, out io.Writer) error {
	var options []string
	switch {
	case f.Root:
	case n.Terminal:
		command, options = "sudo "+command, []string{"-t"}
	default:
		command = "sudo -n " + command
	}
	err := n.ssh(ctx, n.Stdin, out, n.Stderr, append(options, command)...)
	var failed *host.CommandError
	switch {
	case errors.As(err, &failed) && !f.Root && !n.Terminal:
		return fmt.Errorf("exit status %d; without a terminal sudo must need no password there, or connect as root",
			failed.Code)
	case errors.As(err, &failed):
		return fmt.Errorf("exit status %d, see above", failed.Code)
	}
	return err
}

// Uninstall removes the package from a node, with its configuration.
func (n *Node) Uninstall(ctx context.Context) error {
	f, err := n.Detect(ctx)
	if err != nil {
		return err
	}
	m, ok := commands[f.Manager]
	switch {
	case f.Installed == "":
		_, err = fmt.Fprintf(n.Stdout, "%s is not installed on %s\n", Package, n.Target)
		return err
	case !ok:
		return fmt.Errorf("cannot remove %s from %s: it has no package manager that is known", Package, n.Target)
	}
	if err := n.AsRoot(ctx, f, m.remove, n.Stderr); err != nil {
		return fmt.Errorf("cannot remove %s from %s: %w", Package, n.Target, err)
	}
	_, err = fmt.Fprintf(n.Stdout, "%s is removed from %s\n", Package, n.Target)
	return err
}
