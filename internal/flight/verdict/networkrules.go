package verdict

import (
	"fmt"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Limits of the rules on the network.
const (
	resentLeast  = 10.
	resentShare  = .03
	resentSevere = .08
	synLeast     = 3.
	synSevere    = 6.
	dnsSeconds   = 4.
	slowLeast    = 20.      // seconds of a slow download
	slowRate     = 64 << 10 // bytes a second, below which a download is slow
	heartbeat    = 512.     // bytes a second, below which it is none
)

var networkRules = []Rule{
	{Code: "dns-away", Kind: Machine, find: dnsAway,
		When:   "a socket waited 4 s for a name server of the worker, and most queries had no answer",
		Source: "proc_pid_net_udp(5), resolver(3)",
		Fix:    "Look at the name servers of the worker (CONCOURSE_CONTAINERD_DNS_SERVER). " + runAgain,
		FixRun: "Look at the name servers of the container and of the machine. " + runAgain},
	{Code: "no-connection", Kind: Machine, find: noConnection, slows: true,
		When:   "3 requests for a connection were sent again; a cause from 6 if no connection succeeded",
		Source: "snmp_counter.rst",
		Fix:    "Look at the route and the firewall to the servers that it needs. " + runAgain},
	{Code: "packets-lost", Kind: Machine, find: packetsLost, slows: true,
		When:   "10 TCP segments and 3 % were sent again; a cause from 8 %",
		Source: "snmp_counter.rst",
		Fix:    "Look at the network of the machine: cable, MTU, load. " + runAgain},
	{Code: "download-slow", Kind: Machine, find: downloadSlow, slows: true,
		When:   "slow: for 20 s it only received less than 64 KiB/s",
		Source: "proc_pid_net_dev(5)",
		Fix:    "Look at the registry or server that it loads from, or use a mirror nearby. " + runAgain},
}

func dnsAway(f *facts) []finding {
	waits := func(before, now taskrecord.Sample, _ float64) bool {
		a, _ := before.Get(taskrecord.DNSWaiting)
		b, _ := now.Get(taskrecord.DNSWaiting)
		return a > 0 && b > 0
	}
	window := f.window(waits)
	waiting := timeWith(window, waits)
	sent, received := taskrecord.Growth(window, taskrecord.UDPSent), taskrecord.Growth(window, taskrecord.UDPReceived)
	return one(waiting >= dnsSeconds && received <= sent/2, finding{cause: true,
		text: fmt.Sprintf("name servers gave no answer for %.0f s: %.0f packets sent, %.0f received", waiting, sent,
			received),
		numbers: map[string]float64{"seconds": waiting, "sent": sent, "received": received}})
}

// noConnection returns a cause only if no connection succeeded. If one did, the task may
// test what an address without an answer does. Short connections are known from their
// segments: without one, there are only requests.
func noConnection(f *facts) []finding {
	n := taskrecord.Growth(f.window(grows(taskrecord.TCPSynResent)), taskrecord.TCPSynResent)
	open, _ := most(f.Machine, taskrecord.TCPOpen)
	segments := f.grown(taskrecord.TCPSegments) - f.grown(taskrecord.TCPResent)
	return one(n >= synLeast, finding{cause: n >= synSevere && open == 0 && segments <= n,
		text:    fmt.Sprintf("%.0f requests for a connection had no answer", n),
		numbers: map[string]float64{"requests": n}})
}

func packetsLost(f *facts) []finding {
	window := f.window(grows(taskrecord.TCPResent))
	sent := taskrecord.Growth(window, taskrecord.TCPSegments)
	again := taskrecord.Growth(window, taskrecord.TCPResent) - taskrecord.Growth(window, taskrecord.TCPSynResent)
	if sent == 0 {
		return nil
	}
	share := again / sent
	return one(again >= resentLeast && share >= resentShare, finding{cause: share >= resentSevere,
		text:    fmt.Sprintf("%.1f %% of the sent TCP segments were lost, %.0f in all", share*100, again),
		numbers: map[string]float64{"share": share, "segments": again}})
}

func downloadSlow(f *facts) []finding {
	bytes := 0.
	met := func(before, now taskrecord.Sample, t float64) bool {
		in, known := rate(before, now, taskrecord.NetReceived, t)
		cpu, ok := rate(before, now, taskrecord.CPUUsage, t)
		open, _ := now.Get(taskrecord.TCPOpen)
		if !known || !ok || open == 0 || cpu > idleCPU || in < heartbeat || in > slowRate {
			return false
		}
		bytes += in * t
		return true
	}
	lately := timeWith(f.last(f.Machine), met)
	bytes = 0
	slow := timeWith(f.Machine, met)
	share := 0.
	if f.lasted > 0 {
		share = min(1, slow/f.lasted)
	}
	return one(slow >= slowLeast && share >= moderate && (lately > 0 || f.stopped()), finding{cause: share >= severe,
		text: fmt.Sprintf("%s waited %.0f s for a download of %.1f KiB/s, %.0f %% of the time", f.name(), slow,
			bytes/slow/1024, share*100),
		numbers: map[string]float64{"seconds": slow, "share": share, "bytes": bytes}})
}
