// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	jobsPath       = "/apis/batch/v1/jobs"
	scaledJobsPath = "/apis/batch.miracle.dev/v1/scaledjobs"
)

// contents are the objects of a kind. Each is written when it is asked for, so that the test needs no memory for all.
type contents struct {
	apiVersion, kind string
	count            int
	// write writes the object with this number. Its fields beside the metadata are left out on demand.
	write func(to io.Writer, number int, onlyMetadata bool)
}

// apiServer answers as much of the API as the operator needs. It keeps no object but those that were created.
type apiServer struct {
	*httptest.Server

	jobs       contents
	scaledJobs contents

	mu      sync.Mutex
	version int
	// created counts the Jobs of each owner.
	created map[string]int
	// reported are the ScaledJobs whose status was written.
	reported map[string]bool
	// watchers receive events, each of a path.
	watchers map[chan []byte]string
	// requests has the lists and the watches that were made, by path.
	requests map[string]bool
	// released is closed when creates no longer hang; nil if they never do. hanging is how many do.
	released chan struct{}
	hanging  int
}

func newAPIServer(t *testing.T, jobs, scaledJobs contents) *apiServer {
	t.Helper()
	s := &apiServer{
		jobs: jobs, scaledJobs: scaledJobs, version: 1000,
		created: map[string]int{}, reported: map[string]bool{}, requests: map[string]bool{},
		watchers: map[chan []byte]string{},
	}
	mux := http.NewServeMux()
	s.serveDiscovery(mux)
	mux.HandleFunc("GET "+jobsPath, func(w http.ResponseWriter, r *http.Request) { s.answerTo(w, r, &s.jobs) })
	mux.HandleFunc("GET "+scaledJobsPath, func(w http.ResponseWriter, r *http.Request) { s.answerTo(w, r, &s.scaledJobs) })
	mux.HandleFunc("GET /apis/batch.miracle.dev/v1/namespaces/{namespace}/scaledjobs/{name}", s.get)
	mux.HandleFunc("PATCH /apis/batch.miracle.dev/v1/namespaces/{namespace}/scaledjobs/{name}/status", s.patch)
	mux.HandleFunc("POST /apis/batch/v1/namespaces/{namespace}/jobs", s.create)
	mux.HandleFunc("GET /apis/batch/v1/namespaces/{namespace}/jobs/{name}", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "NotFound") // A create without an answer has created nothing.
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusForbidden, "Forbidden")
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *apiServer) serveDiscovery(mux *http.ServeMux) {
	for path, body := range map[string]string{
		"GET /version": `{"major":"1","minor":"36","gitVersion":"v1.36.0"}`,
		"GET /api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"GET /api/v1":  `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"GET /apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group("batch") + "," +
			group("batch.miracle.dev") + "]}",
		"GET /apis/batch/v1":             resources("batch/v1", "jobs", "Job"),
		"GET /apis/batch.miracle.dev/v1": resources("batch.miracle.dev/v1", "scaledjobs", "ScaledJob"),
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, body) })
	}
}

func group(name string) string {
	version := fmt.Sprintf(`{"groupVersion":"%s/v1","version":"v1"}`, name)
	return fmt.Sprintf(`{"name":%q,"versions":[%s],"preferredVersion":%s}`, name, version, version)
}

func resources(groupVersion, name, kind string) string {
	return fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[
		{"name":%q,"namespaced":true,"kind":%q,"verbs":["create","get","list","patch","watch"]}]}`, groupVersion, name, kind)
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func refuse(w http.ResponseWriter, code int, reason string) {
	answer(w, code, fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"not here","code":%d}`, reason, code))
}

// answerTo answers lists and watches.
func (s *apiServer) answerTo(w http.ResponseWriter, r *http.Request, all *contents) {
	watch := r.URL.Query().Get("watch")
	s.locked(func() { s.requests[fmt.Sprintf("%s watch=%s", r.URL.Path, watch)] = true })
	if watch == "" {
		s.list(w, r, all)
	} else {
		s.watch(w, r)
	}
}

// list answers with one page. Like API servers that serve from their cache, it gives all objects if any version will
// do.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request, all *contents) {
	query, to, next := r.URL.Query(), all.count, ""
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("continue"))
	if limit > 0 && query.Get("resourceVersion") != "0" && from+limit < all.count {
		to, next = from+limit, strconv.Itoa(from+limit)
	}
	onlyMetadata := isPartial(r)
	apiVersion, kind := all.apiVersion, all.kind+"List"
	if onlyMetadata {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[`,
		apiVersion, kind, s.read(func() int { return s.version })(), next)
	for i := from; i < to; i++ {
		if i > from {
			_, _ = io.WriteString(w, ",")
		}
		all.write(w, i, onlyMetadata)
	}
	_, _ = io.WriteString(w, "]}")
}

func isPartial(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// watch sends what happens.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 4096)
	s.locked(func() { s.watchers[events] = r.URL.Path })
	defer s.locked(func() { delete(s.watchers, events) })
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-events:
			_, _ = w.Write(event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// get answers with a ScaledJob.
func (s *apiServer) get(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(strings.TrimPrefix(r.PathValue("name"), "sj-"))
	if err != nil || number >= s.scaledJobs.count {
		refuse(w, http.StatusNotFound, "NotFound")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.scaledJobs.write(w, number, isPartial(r))
}

// patch answers to a status. It stores nothing.
func (s *apiServer) patch(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.locked(func() { s.reported[r.PathValue("name")] = true })
	s.get(w, r)
}

// create answers to a create of a Job, and announces it.
func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	var job struct {
		APIVersion string                     `json:"apiVersion"`
		Kind       string                     `json:"kind"`
		Metadata   map[string]json.RawMessage `json:"metadata"`
		Spec       json.RawMessage            `json:"spec"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = asJSON(body)
	}
	if err == nil {
		err = json.Unmarshal(body, &job)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	dryRun := r.URL.Query().Has("dryRun")
	if !dryRun && r.PathValue("namespace") != neighbour && !s.pass(r.Context()) {
		return
	}
	owner := r.PathValue("namespace") + "/" + ownerOf(job.Metadata["ownerReferences"])
	s.mu.Lock()
	s.version++
	version := s.version
	if !dryRun {
		s.created[owner]++
	}
	s.mu.Unlock()
	job.APIVersion, job.Kind = "batch/v1", "Job"
	job.Metadata["uid"] = fmt.Appendf(nil, `"job-%d"`, version)
	job.Metadata["resourceVersion"] = fmt.Appendf(nil, `"%d"`, version)
	made, _ := json.Marshal(job)
	if !dryRun {
		s.announce(fmt.Appendf(nil, `{"type":"ADDED","object":%s}`+"\n", made))
	}
	answer(w, http.StatusCreated, string(made))
}

// hold makes creates hang until release, except those of the neighbour.
func (s *apiServer) hold() { s.released = make(chan struct{}) }

func (s *apiServer) release() { close(s.released) }

// pass waits while creates hang. It reports whether the client still waits for the answer.
func (s *apiServer) pass(ctx context.Context) bool {
	if s.released == nil {
		return true
	}
	s.locked(func() { s.hanging++ })
	defer s.locked(func() { s.hanging-- })
	select {
	case <-s.released:
		return true
	case <-ctx.Done():
		return false
	}
}

func ownerOf(references json.RawMessage) string {
	var owners []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(references, &owners) != nil || len(owners) == 0 {
		return ""
	}
	return owners[0].Name
}

func (s *apiServer) announce(event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watcher, of := range s.watchers {
		if of == jobsPath {
			watcher <- event
		}
	}
}

// locked does something that other requests must not see half done.
func (s *apiServer) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// read returns what reads a number that requests change.
func (s *apiServer) read(number func() int) func() int {
	return func() (is int) {
		s.locked(func() { is = number() })
		return is
	}
}

// jobsOf reads the number of Jobs that were created for a ScaledJob.
func (s *apiServer) jobsOf(owner string) func() int {
	return s.read(func() int { return s.created[owner] })
}

// reports reads how many ScaledJobs have a status.
func (s *apiServer) reports() func() int { return s.read(func() int { return len(s.reported) }) }
