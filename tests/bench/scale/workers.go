package main

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	"math/big"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func unit(n int) string { return fmt.Sprintf("worker/%d", n-1) }

func address(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255) }

// bag is what the n-th worker publishes: at first what Juju puts there.
func bag(n int) map[string]string {
	return map[string]string{"ingress-address": address(n), "private-address": address(n), "egress-subnets": address(n) + "/32"}
}

// publicKey is a line like a worker's key: no one has its other half, as finding a thousand
// pairs of primes would take longer than all more.
func publicKey() (string, error) {
	modulus := make([]byte, beacon.WorkerKeyBits/8)
	rand.Read(modulus) // never fails: crypto/rand ends the program instead
	modulus[0] |= 0x80
	modulus[len(modulus)-1] |= 1
	key, err := ssh.NewPublicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: 65537})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
}

// join runs one of the hooks of the n-th worker's coming.
func (b *bench) join(n int, kind string) (s sample, err error) {
	all := bag(n)
	if kind == "changed" {
		key, err := publicKey()
		if err != nil {
			return s, err
		}
		maps.Copy(all, relation.WorkerDatabag(key, fmt.Sprintf("worker-%d-0badcafe", n-1), "8.2.5"))
		// The same for all, so that the web's limit of tasks stays as it is.
		gpus := relation.WorkerGPUs{Runtime: "rocm", Count: 8, Exclusive: true, Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: 8}}}
		maps.Copy(all, gpus.Databag())
	}
	b.tsa.Units[unit(n)] = all
	return b.hook(jujutest.RelationHook(b.tsa, kind, unit(n)))
}

// others are the hooks with n workers that none of these comes by. The worker
// that leaves comes back.
func (b *bench) others(n int) (map[string][]sample, error) {
	all := map[string][]sample{}
	for _, name := range []string{"update-status", "config-changed"} {
		s, err := b.hook(jujutest.Hook(name))
		if err != nil {
			return nil, err
		}
		all[name] = []sample{s}
	}
	leaver := b.tsa.Units[unit(n)]
	delete(b.tsa.Units, unit(n))
	s, err := b.hook(jujutest.RelationHook(b.tsa, "departed", unit(n)))
	if err != nil {
		return nil, err
	}
	all["tsa-relation-departed"] = []sample{s}
	b.tsa.Units[unit(n)] = leaver
	_, err = b.hook(jujutest.RelationHook(b.tsa, "changed", unit(n)))
	return all, err
}
