// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestMistakesAreRefused(t *testing.T) {
	t.Parallel()
	const example = ", for example REDIS=localhost:6379"
	for line, want := range map[string]string{
		"-unknown":                          "flag provided but not defined: -unknown",
		"burst trickle":                     `unexpected argument "trickle": name one scene, or none for all`,
		"bursts":                            `there is no scene "bursts"; scenes: burst, trickle, flags, redis, operator`,
		"-redis=localhost":                  "REDIS=localhost: the port is missing" + example,
		"-redis=localhost: bursts":          "REDIS=localhost: the port is missing" + example,
		"-redis=:6379":                      "REDIS=:6379: the host is missing" + example,
		"-redis=redis://localhost:6379":     "REDIS=redis://localhost:6379: it is not host:port" + example,
		"-redis=localhost:6379 bursts":      `there is no scene "bursts"; scenes: burst, trickle, operator`,
		"-redis=localhost:6379 redis":       "SCENE=redis kills Redis, so it is not played on yours. With REDIS, choose one of these scenes: burst, trickle, operator",
		"-redis=localhost:6379 -keep flags": "SCENE=flags configures Redis, so it is not played on yours. With REDIS, choose one of these scenes: burst, trickle, operator",
	} {
		_, err := Parse(strings.Fields(line))
		NewWithT(t).Expect(err).To(MatchError(want))
	}
}

func TestOneSceneOrAll(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Parse(nil)).To(Equal(Options{Scenes: All()}))

	one := must.Get(Parse([]string{"-redis=localhost:6379", "-keep", "trickle"}))(g)
	g.Expect(one).To(Equal(Options{RedisAddress: "localhost:6379", Keep: true, Scenes: All()[1:2]}))
}

func TestTheUsersRedisIsSpared(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spared := must.Get(Parse([]string{"-redis=[::1]:6379"}))(g)
	g.Expect(names(spared.Scenes)).To(Equal("burst, trickle, operator"))
	g.Expect(names(spared.LeftOut)).To(Equal("flags, redis"))
}

func TestTheListNamesAllScenes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, scene := range All() {
		g.Expect(Listing()).To(ContainSubstring("  " + scene.Name + " "))
	}
	for line := range strings.Lines(Listing()) {
		g.Expect(len(line)).To(BeNumerically("<=", LineWidth+1))
	}
}
