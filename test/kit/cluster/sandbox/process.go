// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	// probeInterval is how often WaitReady asks.
	probeInterval = 20 * time.Millisecond
	// probeTimeout bounds one question, which a stalled server never answers.
	probeTimeout = 2 * time.Second
	// logTail is how many bytes of its log go into the error of a process.
	logTail = 2048
)

// Process is a child process, dead at the latest when its parent is.
type Process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // of the exit; read only after exited is closed
}

// start forks and waits for the end of the child on a thread of its own: the kernel sends the parent-death signal when
// the forking thread ends, and Go might end any other thread before the process.
func (p *Process) start(log *os.File) error {
	p.cmd.SysProcAttr = DieWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return <-started
}

// PID returns the process identifier.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Signal sends a signal. A process that has ended gives os.ErrProcessDone.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s %s: %w", p.name, signal, err)
	}
	return nil
}

// Kill ends the process at once and returns when it is gone. Killing a process that has ended does nothing.
func (p *Process) Kill() error {
	if err := p.Signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// Terminate asks the process to end, unless it has ended, and is Wait.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait(ctx)
}

// Wait returns when the process has ended or ctx has. The error is nil only if
// the process exited with status 0; it holds the end of the log otherwise.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w; its log ends with:\n%s", p.name, ctx.Err(), p.tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended (%w), its log with:\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// WaitReady asks until ready answers nil. It fails when the process ends or ctx does, with the end of the log of the
// process in the error. The context of a single question lasts two seconds.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx, ready)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended (%w), its log with:\n%s", p.name, p.exitError(), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; its log ends with:\n%s", p.name, ctx.Err(), err, p.tail())
		case <-ticker.C:
		}
	}
}

// WaitServing is WaitReady until a GET of a URL is answered by 200.
func (p *Process) WaitServing(ctx context.Context, web *http.Client, url string) error {
	return p.WaitReady(ctx, func(ctx context.Context) error {
		_, err := Get(ctx, web, url)
		return err
	})
}

// Get returns the body of the answer to a GET of a URL. Another answer than 200 is an error.
func Get(ctx context.Context, web *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := web.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), err
}

func probe(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return ready(ctx)
}

func (p *Process) exitError() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// LogPath returns the file that the process logs to. It is gone when the sandbox is closed.
func (p *Process) LogPath() string { return p.logPath }

// Logs returns what the process has logged until now, or why it cannot be read.
func (p *Process) Logs() string {
	content, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func (p *Process) tail() string {
	logs := p.Logs()
	return logs[max(0, len(logs)-logTail):]
}
