package verdict_test

import (
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// download returns a stopped task that received bytes a second for seconds of 50, and did
// nothing more.
func download(rate, seconds, cpu, open float64) task {
	return task{seconds: 50, machine: func(second float64, v values) {
		slow := min(second, seconds)
		v.set(taskrecord.NetReceived, slow*rate)
		v.set(taskrecord.CPUUsage, slow*cpu+(second-slow)*1e6)
		v.set(taskrecord.TCPOpen, open)
	}}
}

// lost returns a task that sent segments again. syn of them were requests for a connection.
func lost(sent, again, syn float64) task {
	return reads(func(second float64, v values) {
		v.set(taskrecord.TCPSegments, second/60*sent)
		v.set(taskrecord.TCPResent, second/60*again)
		v.set(taskrecord.TCPSynResent, second/60*syn)
	})
}

// asks returns a task that waited for a name server.
func asks(seconds, sent, received float64) task {
	return reads(func(second float64, v values) {
		if second <= seconds {
			v.set(taskrecord.DNSWaiting, 1)
		}
		v.set(taskrecord.UDPSent, second/60*sent)
		v.set(taskrecord.UDPReceived, second/60*received)
	})
}

// connects returns a task with requests for a connection, and with the most open connections.
func connects(requests, open, segments float64) task {
	return reads(func(second float64, v values) {
		v.set(taskrecord.TCPSynResent, second/60*requests)
		v.set(taskrecord.TCPSegments, second/60*segments)
		v.set(taskrecord.TCPOpen, open)
	})
}

func TestLimitsOfRulesOnTheNetwork(t *testing.T) {
	checkLimits(t, []limit{
		{"dns-away", "seconds", func(v float64) task { return asks(v, 10, 0) }, 3, 4, none, cause},
		{"dns-away", "questions without an answer", func(v float64) task { return asks(30, 10, 10-v) }, 4, 5, none, cause},
		{"no-connection", "requests", func(v float64) task { return connects(v, 1, 0) }, 2, 3, none, sign},
		{"no-connection", "requests that are a cause", func(v float64) task { return connects(v, 0, 0) }, 5, 6, sign, cause},
		{"no-connection", "closed connections", func(v float64) task { return connects(6, 1-v, 0) }, 0, 1, sign, cause},
		{"no-connection", "no other segments", func(v float64) task { return connects(6, 0, 8-v) }, 1, 2, sign, cause},
		{"packets-lost", "segments", func(v float64) task { return lost(100, v, 0) }, 9, 10, none, cause},
		{"packets-lost", "share", func(v float64) task { return lost(1000, v*1000, 0) }, .029, .03, none, sign},
		{"packets-lost", "share that is a cause", func(v float64) task { return lost(1000, v*1000, 0) }, .079, .08, sign, cause},
		{"packets-lost", "segments beside requests", func(v float64) task { return lost(100, 20, 20-v) }, 9, 10, none, cause},
		{"download-slow", "seconds", func(v float64) task { return download(8<<10, v, 0, 1) }, 19, 20, none, sign},
		{"download-slow", "share that is a cause", func(v float64) task { return download(8<<10, v*50, 0, 1) }, .48, .5, sign, cause},
		{"download-slow", "bytes a second", func(v float64) task { return download(v, 30, 0, 1) }, 511, 512, none, cause},
		{"download-slow", "bytes a second below 1 MiB", func(v float64) task { return download(1<<20-v, 30, 0, 1) },
			1<<20 - 64<<10 - 1, 1<<20 - 64<<10, none, cause},
		{"download-slow", "CPU left of 1 s", func(v float64) task { return download(8<<10, 30, 1e6-v, 1) },
			1e6 - 20_001, 1e6 - 20_000, none, cause},
		{"download-slow", "open connections", func(v float64) task { return download(8<<10, 30, 0, v) }, 0, 1, none, cause},
	})
}
