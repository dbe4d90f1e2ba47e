// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

var update = flag.Bool("update", false, "write the files with what is expected")

const eventually = 30 * time.Second

// topScreen is a screen with some ScaledJobs, after three reads.
func topScreen() *screen {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newScreen(nil, time.Second, func() time.Time { return at })
	s.namespaces, s.nothing = true, "There are no ScaledJobs."
	for _, depth := range []int64{0, 400, 812} {
		all := []scaledjobv1.ScaledJob{
			topRow("mail", "emails", nil, "", metav1.Condition{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Unreachable"}),
			topRow("media", "a-video-with-a-long-name", &depth, scaledjobv1.ModeEvents,
				metav1.Condition{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reconciled"},
				metav1.Condition{Type: scaledjobv1.ConditionScalingLimited, Status: metav1.ConditionTrue, Reason: "AtMaxReplicas"}),
			topRow("media", "images", new(int64(1)), scaledjobv1.ModePolling),
		}
		byBacklog(all)
		s.show(all)
	}
	return s
}

func topRow(namespace, name string, depth *int64, mode scaledjobv1.ScalingMode, conditions ...metav1.Condition) scaledjobv1.ScaledJob {
	sj := scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	sj.Status = scaledjobv1.ScaledJobStatus{QueueDepth: depth, Mode: mode, Conditions: conditions, ActiveJobs: 3, PendingJobs: 1}
	return sj
}

func TestScreens(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, size := range []tea.WindowSizeMsg{{Width: 20, Height: 8}, {Width: 80, Height: 24}, {Width: 200, Height: 50}} {
		model, _ := topScreen().Update(size)
		var drawn strings.Builder
		for line := range strings.Lines(ansi.Strip(model.View().Content)) {
			drawn.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		file := fmt.Sprintf("testdata/top-%d.txt", size.Width)
		if *update {
			g.Expect(os.WriteFile(file, []byte(drawn.String()), 0o600)).To(Succeed())
		}
		g.Expect(os.ReadFile(file)).To(BeEquivalentTo(drawn.String()))
	}
}

func TestScreensFitEveryTerminal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := topScreen()
	s.note = "The API server does not answer: connection refused. Check the network, and the address in the context."
	for width := 1; width < 200; width += 7 {
		for height := 1; height < 40; height++ {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			lines := strings.Split(s.View().Content, "\n")
			g.Expect(len(lines)).To(BeNumerically("<=", height), "%d×%d", width, height)
			for _, line := range lines {
				g.Expect(ansi.StringWidth(line)).To(BeNumerically("<=", width), "%d×%d", width, height)
			}
		}
	}
}

// What can't be read stays on the screen as it was, with the reason.
func TestTheScreenSaysWhyItIsNotCurrent(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := topScreen()
	s.Update(tea.WindowSizeMsg{Width: 100, Height: 20})
	_, next := s.Update(loaded{err: &url.Error{Op: "Get", URL: "https://example:6443/api", Err: errors.New("connection\nrefused")}})
	g.Expect(next).NotTo(BeNil(), "it tries again")
	g.Expect(s.View().Content).To(And(ContainSubstring("The API server does not answer: connection refused."), ContainSubstring("emails")))
	s.Update(loaded{})
	g.Expect(s.View().Content).To(And(ContainSubstring("There are no ScaledJobs."), Not(ContainSubstring("does not answer"))))
}

func TestUnknownBacklogsComeFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := []scaledjobv1.ScaledJob{
		topRow("a", "few", new(int64(1)), ""), topRow("a", "unknown", nil, ""), topRow("a", "none", new(int64(0)), ""),
		topRow("a", "many", new(int64(9)), ""), topRow("b", "few", new(int64(1)), ""), topRow("b", "unknown", nil, ""),
	}
	byBacklog(all)
	var names []string
	for _, each := range all {
		names = append(names, each.Namespace+"/"+each.Name)
	}
	g.Expect(names).To(HaveExactElements("a/unknown", "b/unknown", "a/many", "a/few", "b/few", "a/none"))
}

// Ctrl-C is the exit code of an interrupted command, q is the end that is meant, and the end of the context is neither.
func TestKeysEndTheScreen(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		key  string
		code int
	}{"q": {"q", 0}, "ctrl-c": {"\x03", exitInterrupted}, "context": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			keys, keyboard := io.Pipe()
			t.Cleanup(func() { _ = keyboard.Close() })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := &app{Options: Options{In: keys, Out: io.Discard}}
			ended := make(chan error, 1)
			go func() { ended <- a.draw(ctx, topScreen()) }()
			if row.key == "" {
				cancel()
			} else {
				_, err := io.WriteString(keyboard, "x"+row.key)
				g.Expect(err).NotTo(HaveOccurred())
			}
			var err error
			g.Eventually(ended).WithTimeout(eventually).Should(Receive(&err))
			if row.code == 0 {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(codeOf(err)).To(Equal(row.code))
				g.Expect(err.Error()).To(BeEmpty(), "nothing is printed")
			}
		})
	}
}
