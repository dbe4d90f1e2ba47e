// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	scrapeInterval = 5 * time.Second
	// The operator is scraped for scrapeTime, after the first scrapes.
	scrapeWarmUp, scrapeTime = 2 * scrapeInterval, time.Minute
	// scrapeBatch ScaledJobs have a Job at the same time.
	scrapeBatch = 500
	// mostScrapeCores is aimed at with manyScaledJobs.
	mostScrapeCores = 0.1
)

// scraping is a way to scrape the operator. accept is what Prometheus asks for.
type scraping struct {
	name, accept string
	native       bool
}

var scrapings = []scraping{
	{"classic histograms", "text/plain;version=0.0.4", false},
	{"native histograms", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", true},
}

func prepareScrapes(ctx context.Context, log io.Writer) error {
	_, err := prometheus.Build(ctx, log)
	return err
}

// measureScrapes takes what it costs that Prometheus scrapes the largest number of ScaledJobs. Each of them has had a Job, and
// so has all the series that come with the first one.
func measureScrapes(ctx context.Context, log io.Writer, s *setting, size sizes) (all []comparison, err error) {
	program, err := prometheus.Build(ctx, log)
	if err != nil {
		return nil, err
	}
	f, err := s.newFleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	f.owner.patience = fleetPatience
	c := &scaleCosts{count: slices.Max(size.scale)}
	f.shown = progress.Start(log, fmt.Sprintf("scrapes, %d ScaledJobs", c.count))
	defer f.shown.Stop()
	if err := f.becomeReady(ctx, c); err != nil {
		return nil, err
	}
	for _, label := range []struct {
		name string
		args []string
	}{{"with the label queue", nil}, {"without it", []string{"--metrics-queue-label=false"}}} {
		f.args = label.args
		taken, err := f.scrapeCosts(ctx, program, fmt.Sprintf("%d ScaledJobs, %s", c.count, label.name), c)
		if err != nil {
			return nil, err
		}
		all = append(all, taken...)
	}
	return all, errors.Join(f.end(ctx), f.disband(ctx))
}

// scrapeCosts takes what each way of scraping costs, with an operator that was just started.
func (f *fleet) scrapeCosts(ctx context.Context, program prometheus.Program, name string, c *scaleCosts) (all []comparison, err error) {
	if err := errors.Join(f.end(ctx), f.start(ctx), f.subscribed(ctx)); err != nil {
		return nil, err
	}
	if err := c.take(ctx, f.haveJobs, f.atRest); err != nil {
		return nil, err
	}
	all = append(all, alone(name+", not scraped: CPU", "cores", c.cores), alone(name+", not scraped: memory", "MB", c.resident/bytesPerMB))
	for _, way := range scrapings {
		f.shown.Status("scraping %s", way.name)
		taken, err := f.scrape(ctx, program, way, c, name+", "+way.name)
		if err != nil {
			return nil, err
		}
		all = append(all, taken...)
	}
	return all, nil
}

// haveJobs has each ScaledJob get a Job, which is deleted with its message. Few have one at the same time: no Pod runs, and
// the operator would report that.
func (f *fleet) haveJobs(ctx context.Context, _ *scaleCosts) error {
	done := 0
	for some := range slices.Chunk(f.members, scrapeBatch) {
		f.shown.Status("creating a Job of each, %d of %d", done, len(f.members))
		for _, member := range some {
			if _, err := member.push(ctx, 1); err != nil {
				return err
			}
		}
		for _, member := range some {
			if _, err := member.nth(ctx, 1); err != nil {
				return err
			}
		}
		for _, member := range some {
			if err := member.empty(ctx); err != nil {
				return err
			}
		}
		if err := f.deleteJobs(ctx); err != nil {
			return err
		}
		done += len(some)
	}
	idle := func(ctx context.Context, member *contender) error { return member.idle(ctx) }
	return errors.Join(f.each(ctx, "waiting for rest", idle), scene.Pause(ctx, settleTime))
}

// scrape has a Prometheus scrape the operator, and says how much CPU that takes on top of the rest.
func (f *fleet) scrape(ctx context.Context, program prometheus.Program, way scraping, rest *scaleCosts, name string) ([]comparison, error) {
	scraping, err := program.Start(ctx, prometheus.Options{
		Targets: []string{f.running.MetricsAddress()}, Interval: scrapeInterval, Native: way.native,
	})
	if err != nil {
		return nil, err
	}
	cores, err := f.coresDuring(ctx)
	var duration, samples float64
	if err == nil {
		duration, samples, err = scrapesOf(ctx, scraping)
	}
	resident, err2 := residentBytes(f.running.PID())
	if err = errors.Join(err, err2, scraping.Stop(ctx)); err != nil {
		return nil, err
	}
	sent, text, err := answerSize(ctx, f.running.MetricsURL(), way.accept)
	return []comparison{
		alone(name+": CPU", "cores", cores),
		alone(name+": memory", "MB", resident/bytesPerMB),
		rest.aimed(name+": CPU of the scrapes", "cores", mostScrapeCores, cores-rest.cores),
		alone(name+": duration of a scrape", "s", duration),
		alone(name+": samples", "", samples),
		alone(name+": size, compressed", "MB", sent/bytesPerMB),
		alone(name+": size", "MB", text/bytesPerMB),
	}, err
}

// scrapesOf returns how many seconds the scrapes of the last minute took, and how many samples they had.
func scrapesOf(ctx context.Context, scraping *prometheus.Prometheus) (duration, samples float64, err error) {
	up := 0.0
	for query, value := range map[string]*float64{
		"avg_over_time(scrape_duration_seconds[1m])": &duration, "scrape_samples_scraped": &samples, "min_over_time(up[1m])": &up,
	} {
		found, err := scraping.Query(ctx, query)
		if err != nil {
			return 0, 0, err
		}
		if len(found) != 1 {
			return 0, 0, fmt.Errorf("the query %s has %d answers instead of one", query, len(found))
		}
		*value = found[0].Value
	}
	if up != 1 {
		return 0, 0, errors.New("a scrape has failed")
	}
	return duration, samples, nil
}

// coresDuring returns how much CPU the operator uses while it is scraped.
func (f *fleet) coresDuring(ctx context.Context) (float64, error) {
	if err := scene.Pause(ctx, scrapeWarmUp); err != nil {
		return 0, err
	}
	began := time.Now()
	before, err := cpuTime(f.running.PID())
	if err != nil {
		return 0, err
	}
	if err := scene.Pause(ctx, scrapeTime); err != nil {
		return 0, err
	}
	after, err := cpuTime(f.running.PID())
	return (after - before) / time.Since(began).Seconds(), err
}

// answerSize returns how many bytes are sent for a scrape, compressed, and how many these are then.
func answerSize(ctx context.Context, url, accept string) (sent, text float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	counted := &countingReader{from: answer.Body}
	unpacked, err := gzip.NewReader(counted)
	if err != nil {
		return 0, 0, err
	}
	size, err := io.Copy(io.Discard, unpacked)
	return float64(counted.bytes), float64(size), err
}

// countingReader counts what is read.
type countingReader struct {
	from  io.Reader
	bytes int
}

func (r *countingReader) Read(into []byte) (int, error) {
	n, err := r.from.Read(into)
	r.bytes += n
	return n, err
}
