// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/redistest/program"
)

func TestPathIsTheOneNamed(t *testing.T) {
	g := NewWithT(t)
	server := filepath.Join(t.TempDir(), "my-redis")
	t.Setenv("REDIS_SERVER", server)

	_, err := program.Path(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("REDIS_SERVER")))

	g.Expect(os.WriteFile(server, nil, 0o755)).To(Succeed())
	g.Expect(program.Path(t.Context(), nil)).To(Equal(server))

	t.Chdir(filepath.Dir(server))
	t.Setenv("REDIS_SERVER", "./my-redis")
	_, err = program.Path(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("REDIS_SERVER=./my-redis is a relative path")))
}

func TestVersionIsWhatTheServerCallsItself(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ says, want string }{
		"Redis":  {"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", "Redis 7.0.15"},
		"Valkey": {"Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", "Valkey 8.0.1"},
		"KeyDB":  {"KeyDB server v=6.3.4 sha=00000000:0", "KeyDB 6.3.4"},
		"none":   {"cat (GNU coreutils) 9.1", ""},
		"silent": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := filepath.Join(t.TempDir(), "server")
			script := "#!/bin/sh\necho '" + test.says + "'\n"
			g.Expect(os.WriteFile(server, []byte(script), 0o755)).To(Succeed())

			version, err := program.Version(t.Context(), server)
			g.Expect(version).To(Equal(test.want))
			if test.want == "" {
				g.Expect(err).To(MatchError(HavePrefix(server + " is not a Redis or Valkey server")))
			}
		})
	}
}

// A process that the program leaves behind keeps its output open.
func TestVersionIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, ended := filepath.Join(t.TempDir(), "server"), filepath.Join(t.TempDir(), "ended")
	g.Expect(os.WriteFile(server, []byte("#!/bin/sh\n(sleep 60; : > "+ended+") &\n"), 0o755)).To(Succeed())
	_, err := program.Version(t.Context(), server)
	g.Expect(err).To(MatchError(HavePrefix(server + " is not a Redis or Valkey server")))
	g.Expect(ended).NotTo(BeAnExistingFile(), "the process still runs")
}

func TestVersionOfTheServerInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path, err := program.Path(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(program.Version(t.Context(), path)).To(MatchRegexp(`^\w+ \d+\.\d+`))
}

func TestValkeyIsAskedForWhereItCannotBeFetched(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("REDIS_SERVER", "valkey")
	t.Setenv("PATH", t.TempDir())
	_, err := program.Path(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("set REDIS_SERVER=/path/to/valkey-server")))
}

func TestPathAsksForOneWhereNoneCanBeFetched(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	_, err := program.Path(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("set REDIS_SERVER=/path/to/redis-server")))
}
