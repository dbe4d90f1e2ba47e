// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const timeout = 30 * time.Second

func TestPushIsNotified(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	messages := subscribe(t, server, "emails")

	g.Expect(server.Client().LPush(t.Context(), "emails", "hello").Err()).To(Succeed())
	g.Eventually(messages).WithTimeout(timeout).Should(Receive(HaveField("Payload", "lpush")))
}

func TestOptionsWinOverDefaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options redistest.Options
		setting string
		want    string
	}{
		"default events": {setting: "notify-keyspace-events", want: "glK"},
		"other events":   {options: redistest.Options{Events: "Kz"}, setting: "notify-keyspace-events", want: "zK"},
		"no events":      {options: redistest.Options{Events: redistest.NoEvents}, setting: "notify-keyspace-events", want: ""},
		"arguments":      {options: redistest.Options{Args: []string{"--databases", "3"}}, setting: "databases", want: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.New(t, test.options)
			values, err := server.Client().ConfigGet(t.Context(), test.setting).Result()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(values).To(HaveKeyWithValue(test.setting, test.want))
		})
	}
}

func TestStartReturnsThoughAnswersNeedAPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{Args: []string{"--requirepass", "secret"}})

	g.Expect(server.Client().Ping(t.Context()).Err()).To(MatchError(ContainSubstring("NOAUTH")))
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	g.Expect(client.Ping(t.Context()).Err()).To(Succeed())
}

func TestClientOfAUserMayDoWhatOthersMayNot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{User: "tester"})
	g.Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "off").Err()).To(Succeed())
	g.Expect(server.Client().LPush(t.Context(), "emails", "hello").Err()).To(Succeed())
	other := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = other.Close() })
	g.Expect(other.LLen(t.Context(), "emails").Err()).To(MatchError(ContainSubstring("NOAUTH")))
}

func TestRestartKeepsPortAndNotifications(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	addr := server.Addr()
	g.Expect(server.Client().LPush(t.Context(), "emails", "lost").Err()).To(Succeed())

	g.Expect(server.Kill()).To(Succeed())
	_, err := net.DialTimeout("tcp", addr, timeout)
	g.Expect(err).To(HaveOccurred())

	g.Expect(server.Restart(t.Context())).To(Succeed())
	g.Expect(server.Addr()).To(Equal(addr))
	messages := subscribe(t, server, "emails")
	depth, err := server.Client().LPush(t.Context(), "emails", "kept").Result()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(depth).To(Equal(int64(1)), "a restarted server is empty")
	g.Eventually(messages).WithTimeout(timeout).Should(Receive(HaveField("Payload", "lpush")))
}

func TestPausedServerKeepsConnectionsAndAnswersNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	g.Expect(server.Client().Ping(t.Context()).Err()).To(Succeed())

	g.Expect(server.Pause()).To(Succeed())
	err := server.Client().Ping(t.Context()).Err()
	g.Expect(err).To(MatchError(os.ErrDeadlineExceeded), "a time-out, not a closed connection")
	g.Expect(server.Resume()).To(Succeed())
	g.Eventually(func() error { return server.Client().Ping(t.Context()).Err() }).WithTimeout(timeout).Should(Succeed())
}

func TestStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, err := redistest.Start(t.Context(), redistest.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Pause()).To(Succeed())

	g.Expect(server.Stop()).To(Succeed())
	g.Expect(server.Stop()).To(Succeed())
	_, err = net.DialTimeout("tcp", server.Addr(), timeout)
	g.Expect(err).To(HaveOccurred())
	g.Expect(server.Restart(t.Context())).NotTo(Succeed())
}

func TestStartSaysWhyTheServerEnded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := redistest.Start(t.Context(), redistest.Options{Args: []string{"--no-such-setting", "1"}})
	g.Expect(err).To(MatchError(ContainSubstring("no-such-setting")))
}

func TestBinaryIsTheOneNamed(t *testing.T) {
	g := NewWithT(t)
	program := filepath.Join(t.TempDir(), "my-redis")
	t.Setenv("REDIS_SERVER", program)

	_, err := redistest.Binary(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("REDIS_SERVER")))

	g.Expect(os.WriteFile(program, nil, 0o755)).To(Succeed())
	g.Expect(redistest.Binary(t.Context(), nil)).To(Equal(program))

	t.Chdir(filepath.Dir(program))
	t.Setenv("REDIS_SERVER", "./my-redis")
	_, err = redistest.Binary(t.Context(), nil)
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
			program := filepath.Join(t.TempDir(), "server")
			script := "#!/bin/sh\necho '" + test.says + "'\n"
			g.Expect(os.WriteFile(program, []byte(script), 0o755)).To(Succeed())

			version, err := redistest.Version(t.Context(), program)
			g.Expect(version).To(Equal(test.want))
			if test.want == "" {
				g.Expect(err).To(MatchError(HavePrefix(program + " is not a Redis or Valkey server")))
			}
		})
	}
}

// A process that the program leaves behind keeps its output open.
func TestVersionIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	program, ended := filepath.Join(t.TempDir(), "server"), filepath.Join(t.TempDir(), "ended")
	g.Expect(os.WriteFile(program, []byte("#!/bin/sh\n(sleep 60; : > "+ended+") &\n"), 0o755)).To(Succeed())
	_, err := redistest.Version(t.Context(), program)
	g.Expect(err).To(MatchError(HavePrefix(program + " is not a Redis or Valkey server")))
	g.Expect(ended).NotTo(BeAnExistingFile(), "the process still runs")
}

func TestVersionOfTheServerInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path, err := redistest.Binary(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(redistest.Version(t.Context(), path)).To(MatchRegexp(`^\w+ \d+\.\d+`))
}

func TestValkeyIsAskedForWhereItCannotBeFetched(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("REDIS_SERVER", "valkey")
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.Binary(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("set REDIS_SERVER=/path/to/valkey-server")))
}

func TestBinaryAsksForOneWhereNoneCanBeFetched(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.Binary(t.Context(), nil)
	g.Expect(err).To(MatchError(ContainSubstring("set REDIS_SERVER=/path/to/redis-server")))
}

// subscribe returns the notifications of a key, once the subscription stands.
func subscribe(t *testing.T, server *redistest.Server, key string) <-chan *redis.Message {
	t.Helper()
	subscription := server.Client().Subscribe(t.Context(), "__keyspace@0__:"+key)
	t.Cleanup(func() { _ = subscription.Close() })
	_, err := subscription.Receive(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return subscription.Channel()
}
