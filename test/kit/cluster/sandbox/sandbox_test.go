// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

const (
	timeout = 30 * time.Second

	// parentVariable makes the test binary play a parent that is killed.
	parentVariable = "SANDBOX_TEST_PARENT"
)

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		playParent()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestCloseEndsProcessesAndRemovesTheFolder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	box := newSandbox(t)
	process, err := box.Start("sleep", "sleep", "3600")
	g.Expect(err).NotTo(HaveOccurred())
	stopped, err := box.Start("sleep", "sleep", "3600")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stopped.Signal(syscall.SIGSTOP)).To(Succeed())
	g.Expect(alive(process.PID())).To(BeTrue())

	g.Expect(box.Close()).To(Succeed())
	g.Expect(alive(process.PID())).To(BeFalse())
	g.Expect(alive(stopped.PID())).To(BeFalse())
	g.Expect(box.Dir()).NotTo(BeADirectory())

	g.Expect(box.Close()).To(Succeed())
	g.Expect(box.Start("sleep", "sleep", "3600")).Error().To(MatchError(ContainSubstring("closed")))
	g.Expect(box.Port()).Error().To(MatchError(ContainSubstring("closed")))
}

func TestKilledParentLeavesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	output, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	lines := bufio.NewScanner(output)
	g.Expect(lines.Scan()).To(BeTrue())
	childPID, dir, _ := strings.Cut(lines.Text(), " ")
	child, err := strconv.Atoi(childPID)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(alive(child)).To(BeTrue())

	newSandbox(t)
	g.Expect(dir).To(BeADirectory(), "the folder of a living process is left alone")

	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait()
	g.Eventually(func() bool { return alive(child) }).WithTimeout(timeout).Should(BeFalse())
	newSandbox(t)
	g.Eventually(dir).WithTimeout(timeout).ShouldNot(BeADirectory())
}

// playParent starts a child, says where it is and waits to be killed.
func playParent() {
	box, err := sandbox.New()
	if err != nil {
		panic(err)
	}
	child, err := box.Start("sleep", "sleep", "3600")
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Println(child.PID(), box.Dir())
	<-child.Exited()
}

func TestWaitReadySaysWhyAProcessEnded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	process, err := newSandbox(t).Start("shell", "sh", "-c", "echo the reason; exit 3")
	g.Expect(err).NotTo(HaveOccurred())

	err = process.WaitReady(t.Context(), func(context.Context) error { return errors.New("not yet") })
	g.Expect(err).To(MatchError(And(ContainSubstring("the reason"), ContainSubstring("exit status 3"))))
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	process, err := newSandbox(t).Start("sleep", "sleep", "3600")
	g.Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithCancel(t.Context())
	err = process.WaitReady(ctx, func(context.Context) error {
		cancel()
		return errors.New("not yet")
	})
	g.Expect(err).To(And(MatchError(ContainSubstring("not yet")), MatchError(context.Canceled)))
}

func newSandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	g := NewWithT(t)
	box, err := sandbox.New()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(box.Close()).To(Succeed()) })
	return box
}

// alive reports whether a process runs. One that ended but whose parent has
// not asked for its exit status, a zombie, does not.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}
