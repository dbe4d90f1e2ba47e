// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"errors"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const profiles = "/debug/pprof/"

func TestNoProfilesAreServedUnlessAsked(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.Operator = s.operate()
	s.Expect(s.Operator.Logs()).NotTo(ContainSubstring("pprof"))
	for _, url := range []string{s.Operator.ProbeURL(), strings.TrimSuffix(s.Operator.MetricsURL(), "/metrics")} {
		_, err := operator.Get(t.Context(), url+profiles)
		s.Expect(err).To(MatchError(ContainSubstring("answers 404")))
	}
}

// A profile that is being taken does not hold up the end of the operator.
func TestProfilesAreServedUntilTheOperatorEnds(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.Operator = s.operate("--pprof-bind-address=127.0.0.1:0")
	started := regexp.MustCompile(`starting server.*"name": ?"pprof".*"addr": ?"(127\.0\.0\.1:\d+)"`)
	var url string
	s.Eventually(func() []string {
		found := started.FindStringSubmatch(s.Operator.Logs())
		if len(found) > 0 {
			url = "http://" + found[1] + profiles
		}
		return found
	}).Should(HaveLen(2))
	goroutines, err := operator.Get(t.Context(), url+"goroutine?debug=1")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(goroutines).To(ContainSubstring("goroutine profile: total"))
	s.Expect(operator.Get(t.Context(), url+"heap")).NotTo(BeEmpty())

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"trace?seconds=3600", nil)
	s.Expect(err).NotTo(HaveOccurred())
	tracing, err := http.DefaultClient.Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = tracing.Body.Close() })
	s.Expect(s.Operator.Stop(t.Context())).To(Succeed())
	s.Expect(s.Operator.Logs()).NotTo(ContainSubstring("the operator ends"))
	_, err = operator.Get(t.Context(), url)
	s.Expect(err).To(MatchError(ContainSubstring("connection refused")))
}

func TestAddressesThatOthersReachServeNoProfiles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path, err := programs.Operator(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(t.Context(), path, "--pprof-bind-address=:6060").CombinedOutput()
	var exit *exec.ExitError
	g.Expect(errors.As(err, &exit)).To(BeTrue())
	g.Expect(exit.ExitCode()).To(Equal(2))
	g.Expect(string(output)).To(Equal("invalid value for flag -pprof-bind-address: \":6060\" is not a loopback address with a " +
		"port, such as 127.0.0.1:6060\n"))
}
