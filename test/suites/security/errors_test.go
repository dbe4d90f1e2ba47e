// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// What a row says of the ScaledJob besides the reason.
const (
	stalled     = scaledjobv1.ConditionStalled
	reconciling = scaledjobv1.ConditionReconciling
	polled      = "polled"
)

// row is an error that is provoked and mended.
type row struct {
	situation string
	// reason is that of QueueConnected, or if the queue is only polled, that of
	// NotificationsActive. The message has these words, which say what to do.
	reason, words string
	// state is stalled, reconciling or polled.
	state string
	cure  string
	// inUse says that everything is well at first, and a Job was created.
	inUse bool
	stage func(s *scaledJob) stage
}

// stage is what a row needs. What is nil is not done.
type stage struct {
	spec    []scene.Change
	provoke func()
	mend    func()
}

// representativeErrors are one for each reason, where provoking it takes no more than seconds.
var representativeErrors = []string{
	"the CA is another one", "the server speaks no TLS", "no password is given", "the Secret is missing", "the CA is no certificate",
	"the address is in `--redis-deny-cidrs`", "too many servers in a namespace", "the database does not exist", "the key matches no pattern of the user",
}

func situation(r row) string { return r.situation }

func TestWhatKeepsFromReadingIsToldAndMended(t *testing.T) {
	t.Parallel()
	for _, row := range scene.RowsNamed(t, readingRows(), situation, representativeErrors...) {
		t.Run(row.situation, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			other := newNeighbour(t)
			stage := row.stage(s)
			provoke(s, row, stage)
			expectTold(s, row)
			before := s.jobsEver()
			s.push(1)
			other.expectNoticed()
			s.Expect(s.jobsEver()).To(Equal(before), "Jobs on an unknown depth")
			mend(s, row, stage)
			s.awaitConnected()
			s.expectNoticed()
		})
	}
}

func TestWhatKeepsFromListeningIsToldAndMended(t *testing.T) {
	t.Parallel()
	for _, row := range scene.RowsNamed(t, channelRows(), situation, "the user lacks `subscribe`") {
		t.Run(row.situation, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			stage := row.stage(s)
			s.create(append(stage.spec, scene.Polling(1))...)
			s.push(1)
			s.awaitJobs()
			told := s.awaitFalse(scaledjobv1.ConditionNotificationsActive, row.reason, row.words)
			s.Expect(told.Abnormal).To(BeEmpty(), "the queue is read")
			s.Expect(s.Status().Mode).NotTo(Equal(scaledjobv1.ModeEvents))
			s.push(1)
			s.awaitJobs()
			s.Update(scene.Polling(scene.Never))
			s.AwaitTemplateChecked()
			mend(s, row, stage)
			s.expectNoticed()
		})
	}
}

// readingRows are what keeps the operator from reading a queue.
func readingRows() []row {
	return slices.Concat(tlsRows(), credentialRows(), rightRows(), secretRows(), addressRows())
}

// allRows are all that are played, in the order of the table.
func allRows() []row {
	return slices.Concat(readingRows(), []row{forbiddenRow()}, channelRows())
}

// provoke has the operator meet the error, before its first Job or after it.
func provoke(s *scaledJob, row row, stage stage) {
	s.t.Helper()
	if !row.inUse {
		if stage.provoke != nil {
			stage.provoke()
		}
		s.push(1)
		s.create(stage.spec...)
		return
	}
	s.create(stage.spec...)
	s.expectNoticed()
	stage.provoke()
	// Nothing but a look at the queue shows some of what was provoked.
	s.Update(scene.Polling(1))
}

// expectTold waits until the status tells the error as it should.
func expectTold(s *scaledJob, row row) {
	s.t.Helper()
	told := s.awaitFalse(scaledjobv1.ConditionQueueConnected, row.reason, row.words)
	s.Expect(told.Abnormal).To(Equal(row.state))
	s.Expect(s.verdict(scaledjobv1.ConditionReady).Reason).To(Equal(row.reason))
	s.Update(scene.Polling(scene.Never))
}

// mend ends the error, and measures how long it takes until each message has its
// Job.
func mend(s *scaledJob, row row, stage stage) {
	s.t.Helper()
	if row.state == polled {
		s.push(1) // Nothing tells of this one before it is mended.
	}
	kind := scaledjobv1.ConditionQueueConnected
	if row.state == polled {
		kind = scaledjobv1.ConditionNotificationsActive
	}
	told := s.verdict(kind).Message
	stage.mend()
	mended := time.Now()
	s.awaitJobs()
	table.add(row, meeting{message: told, took: time.Since(mended)})
}

// newNeighbour is a ScaledJob in a namespace of its own, whose server is well.
func newNeighbour(t *testing.T) *scaledJob {
	t.Helper()
	s := newScaledJob(t)
	s.Redis = neighbours.Client()
	s.create(at(neighbours.Addr()))
	s.expectNoticed()
	return s
}

// on is a server of this row, and the way to it that is right for its tenant, who
// may do everything.
func (s *scaledJob) on(server *server) []scene.Change {
	s.t.Helper()
	s.Redis = server.Client()
	password := planted.password()
	server.user(tenant, password, "~*", "&*", "+@all")
	s.putPassword(password)
	return []scene.Change{at(server.Addr()), signedIn(tenant)}
}

// with is more changes than these.
func with(spec []scene.Change, more ...scene.Change) []scene.Change { return slices.Concat(spec, more) }
