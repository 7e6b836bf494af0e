package jobexporter

import (
	"io"
	"net/http"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/program"
)

// Handler serves /metrics, /-/healthy and /-/ready. Healthy is about the
// exporter alone: starting it anew would not bring Concourse back.
func Handler(p *Poller) http.Handler {
	scrapes := program.NewLimited()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", scrapes.Handle(func(_ http.ResponseWriter, r *http.Request, b []byte) (string, []byte) {
		format := expo.Negotiate(r.Header.Get("Accept"))
		return format.ContentType(), p.Write(b, format)
	}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "concourse-exporter is healthy.\n")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error()+".\n")
			return
		}
		say(w, http.StatusOK, "Concourse answers.\n")
	})
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, text)
}
