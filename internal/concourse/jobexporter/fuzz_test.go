package jobexporter

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
)

// readList passes the elements of an answer, as webclient.List does.
func readList[T any](answer string, each func(T)) error {
	return jsonlist.Read(strings.NewReader(answer), 1<<20, func(d *json.Decoder) error {
		var one T
		err := d.Decode(&one)
		if err == nil {
			each(one)
		}
		return err
	})
}

// Whatever Concourse answers, Prometheus' library takes what is made of it: no series
// is there twice, and all text is UTF-8.
func FuzzAnswers(f *testing.F) {
	f.Add(`[{"id":1,"name":"b","paused":true,"archived":true,"team_name":"a"}]`, `[{"name":"c","team_name":"a","pipeline_name":"b","next_build":{"status":"started","end_time":-62135596800}}]`, `[{"id":"h","worker_name":"w","build_name":"1"},{"id":"h"}]`)
	f.Add("null", "[]", "null")
	f.Add(`[{"name":"a","team_name":"t","instance_vars":{"a":{"b":[]}}}]`, `[{"name":"\n\\\"","team_name":"t","pipeline_name":"a","finished_build":{"status":"x","end_time":9e18}}]`, `[{"id":"\n","pipeline_name":"p","pipeline_instance_vars":{"a":[]}}]`)
	f.Add(`[{"name":"a","team_name":"t"},{"name":"a","team_name":"t"}] []`, `[{},null,{}]`, `[{},null]`)
	f.Fuzz(func(t *testing.T, pipelines, jobs, containers string) {
		v := newView(nil)
		if readList(pipelines, v.addPipeline) != nil || readList(jobs, v.addJob) != nil {
			return
		}
		seen := tasks{}
		if readList(containers, func(c container) { seen.put(v, "t", c, time.Now()) }) != nil {
			return
		}
		seen.show(v, time.Now())
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(&Poller{o: Options{Now: time.Now, Keep: time.Hour}, success: time.Now(), answer: v.finish(1)})
		_, err := r.Gather()
		require.NoError(t, err)
	})
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"url":"http://127.0.0.1:8080","username":"admin","password":"x"}`))
	f.Add([]byte(`{"url":"https://a/b","username":"a","password":"\u0000","ca-file":"/x","server-name":"y"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := login.Parse(data)
		if err != nil {
			return
		}
		again, err := c.Marshal()
		require.NoError(t, err)
		back, err := login.Parse(again)
		require.NoError(t, err)
		require.Equal(t, c, back)
	})
}

// Two sets of variables have one name only if they are the same.
func FuzzReference(f *testing.F) {
	f.Add(`{"a":"b"}`, `{"a":{"b":1}}`)
	f.Add(`{"a.b":1}`, `{"a":{"b":1}}`)
	f.Add(`{"a":"1"}`, `{"a":1}`)
	f.Add(`{"a":"b","c":"d"}`, `{"a":"b,c:d"}`)
	f.Add(`{"a":"x\ny"}`, `{"a":"x\\ny"}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y map[string]any
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
			return
		}
		require.Equal(t, Reference("p", x), Reference("p", x), "always the same")
		if name := Reference("p", x); name != "" && !reflect.DeepEqual(x, y) {
			require.NotEqual(t, name, Reference("p", y))
		}
	})
}
