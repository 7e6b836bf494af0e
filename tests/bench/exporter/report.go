package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// find returns the subject of a name, or nil.
func find(all []*subject, name string, gpus int) *subject {
	for _, s := range all {
		if s.name == name && s.gpus == gpus {
			return s
		}
	}
	return nil
}

func report(w io.Writer, all []*subject) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GPUs\tprogram\tp50 µs\tp99 µs\tCPU µs\tRSS MiB\tseries\tbytes\tµs/series\tp50/floor\tCPU/floor\t")
	for _, s := range all {
		f := find(all, "floor", s.gpus)
		p50, cpu := median(s.p50s), median(s.cpus)
		fmt.Fprintf(t, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.1f\t%d\t%d\t%.2f\t%.2f\t%.2f\t\n", s.gpus, s.name, us(p50), us(s.p99), us(cpu), s.rss,
			s.series, s.bytes, us(p50)/float64(s.series), us(p50)/us(median(f.p50s)), us(cpu)/us(median(f.cpus)))
	}
	t.Flush()
}

// goals reports for each goal whether it was met.
func goals(w io.Writer, all []*subject) {
	check := func(name string, got, most float64) {
		word := "met"
		if got > most {
			word = "MISSED"
		}
		fmt.Fprintf(w, "%-58s %8.2f of %8.2f  %s\n", name, got, most, word)
	}
	ours, floor, many := find(all, "rocm-exporter", 8), find(all, "floor", 8), find(all, "rocm-exporter", 64)
	// The same readings written by the library took 6.0 to 6.4 times the floor's time, and 6.3 to
	// 7.0 times its CPU.
	check("8 GPUs: p50 over the floor's", us(median(ours.p50s))/us(median(floor.p50s)), 6.5)
	check("8 GPUs: CPU over the floor's", us(median(ours.cpus))/us(median(floor.cpus)), 7.5)
	library := find(all, "library", 8)
	check("8 GPUs: p50 over that of the library alone", us(median(ours.p50s))/us(median(library.p50s)), 1.5)
	check("8 GPUs: CPU over that of the library alone", us(median(ours.cpus))/us(median(library.cpus)), 1.5)
	check("8 GPUs: RSS in MiB", ours.rss, 25)
	check("64 over 8 GPUs: p50, where series grow by as much", us(median(many.p50s))/us(median(ours.p50s)), float64(many.series)/float64(ours.series))
	check("64 over 8 GPUs: CPU, where series grow by as much", us(median(many.cpus))/us(median(ours.cpus)), float64(many.series)/float64(ours.series))
	if peer := find(all, "node_exporter", 8); peer != nil {
		check("8 GPUs: p50 over node_exporter's", us(median(ours.p50s))/us(median(peer.p50s)), 1)
		check("8 GPUs: node_exporter's series over ours", float64(peer.series)/float64(ours.series), 1)
	}
}
