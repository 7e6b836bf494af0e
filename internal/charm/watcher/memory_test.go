package watcher

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// server is the report of a unit's GPU 1 with a program of the machine, and GPU 0 without one.
const server = `{"users_time":"2026-01-02T03:04:05Z","gpus":[
	{"index":0,"pci_bus_id":"0000:03:00.0","up":true,"health":{"state":"healthy"},"partitions":1,
	 "memory_used_bytes":1e8,"memory_total_bytes":68719476736,"users":[]},
	{"index":1,"pci_bus_id":"0000:43:00.0","up":true,"health":{"state":"healthy"},"partitions":1,
	 "memory_used_bytes":62277025792,"memory_total_bytes":68719476736,"users":[],
	 "processes":[{"pid":4242,"name":"llama-server","memory_bytes":62e9}]}]}`

const serverText = "58 of 64 GiB are used by llama-server, pid 4242, of this machine"

func TestMemoryOfAProgramIsShown(t *testing.T) {
	u := leaseUnit(t, leasing())
	reported(t, u, server)
	require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): warning: "+serverText+"\n")
	admitted := quarantinedNow(t, u.Host.Root)
	require.Contains(t, admitted, `"taken":90}]`)
	require.Contains(t, admitted, `"files":["/sys/bus/pci/devices/0000:43:00.0/mem_info_vram_used"]`)
	require.NotContains(t, admitted, `"reason"`)
	var status bytes.Buffer
	require.NoError(t, u.Status(&status, term.Format{}))
	require.Contains(t, status.String(), "warning: GPU 1")
	require.Contains(t, status.String(), serverText)
	warnings, err := u.Warnings()
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, serverText, warnings[0].Text)
}

func TestLineOnALeaseNamesOthers(t *testing.T) {
	u := leaseUnit(t, leasing())
	reported(t, u, server)
	watched(t, u)
	runs(t, u.Host.Root, "4242")
	taken(t, u, "4f1c", 4242, time.Second, lease.Want{Of: []int{1}, Count: 1})
	seen, err := u.readSeen()
	require.NoError(t, err)
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	_, leased, err := u.users(seen, r)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"4f1c": {"GPU 1: 0000:43:00.0, healthy, " + serverText}}, leased)
}
