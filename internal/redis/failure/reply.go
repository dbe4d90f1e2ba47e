// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import "strings"

// Messages that several replies share.
const (
	refusedCredentials = "Redis rejected the credentials. Check the user name and the password in spec.redis.auth, and that the user is enabled " +
		"on the server. Without a username, the user is default."
	noSuchDatabase = "The server has no database with this number. Correct spec.redis.database, or raise the setting databases on the server. " +
		"A Redis Cluster has only database 0."
	nodeOfCluster = "The server is a node of a Redis Cluster, which shares the keys among several servers. Write mode: Cluster in spec.redis."
	noPassword    = "The server has no password for this user, but the operator sent one. Set a password on the server, or remove spec.redis.auth."
)

// replyClasses are searched in order for the first prefix of an error reply.
var replyClasses = []struct {
	prefix  string
	reason  Reason
	message string
}{
	{
		"NOAUTH", ReasonAuthFailed,
		"Redis requires a password. Store it in a Secret, and name the Secret in spec.redis.auth.passwordSecretRef.",
	},
	{"WRONGPASS", ReasonAuthFailed, refusedCredentials},
	{"ERR invalid password", ReasonAuthFailed, refusedCredentials}, // Before Redis 6.
	{
		"ERR wrong number of arguments for 'auth' command", ReasonAuthFailed, // Before Redis 6.
		"The server supports passwords, but no user names. Remove spec.redis.auth.username.",
	},
	{"ERR AUTH ", ReasonAuthFailed, noPassword},
	{"ERR Client sent AUTH, but no password is set", ReasonAuthFailed, noPassword}, // Before Redis 6.
	{"ERR DB index is out of range", ReasonDatabaseNotFound, noSuchDatabase},
	{"ERR invalid DB index", ReasonDatabaseNotFound, noSuchDatabase},
	{"ERR SELECT is not allowed in cluster mode", ReasonDatabaseNotFound, noSuchDatabase},
	{
		"WRONGTYPE", ReasonWrongType,
		"A key has another type than the spec says; spec.queueName requires a list. " +
			"Correct the type in spec.queues, name another key, or rename the key in Redis.",
	},
	{
		"LOADING", ReasonUnreachable,
		"Redis is loading its data set. Wait until it has finished.",
	},
	{
		"BUSY ", ReasonUnreachable,
		"A script blocks Redis. Wait until the script ends, or stop it with SCRIPT KILL.",
	},
	{
		"MASTERDOWN", ReasonUnreachable,
		"The server is a replica that has lost its master and does not serve stale data. Use the address of the master.",
	},
	{"MOVED", ReasonWrongMode, nodeOfCluster},
	{"ASK ", ReasonWrongMode, nodeOfCluster},
	{
		clusterDown, ReasonUnreachable,
		"The Redis Cluster is down, at least for the slot of the key. Repair the cluster.",
	},
	{
		"DENIED", ReasonUnreachable,
		"Redis runs in protected mode and accepts connections only from its own host. Set a password on the server.",
	},
	{
		tooManyClients, ReasonUnreachable,
		"Redis accepts no more clients. Raise maxclients, or find out which clients use the connections.",
	},
}

// clusterDown is what the reply of a node begins with that cannot reach most masters, or if a slot has no master.
const clusterDown = "CLUSTERDOWN"

// InStandalone returns the class of an error of a server that should have all keys.
func InStandalone(cause *Error) *Error {
	if strings.HasPrefix(errorReply(cause.Err), clusterDown) {
		return &Error{Reason: ReasonWrongMode, Message: nodeOfCluster, Err: cause.Err}
	}
	return cause
}

func classifyReply(reply string) class {
	if strings.HasPrefix(reply, "NOPERM") {
		return class{ReasonPermissionDenied, permissionMessage(reply)}
	}
	for _, c := range replyClasses {
		if strings.HasPrefix(reply, c.prefix) {
			return class{c.reason, c.message}
		}
	}
	return class{ReasonUnreachable, "Redis answered with an error. See the operator's log for its text."}
}

// grants has the permission for each command that the operator runs, by the name that Redis uses in its error. Redis 6
// omits the subcommand.
var grants = map[string]string{
	"ping": "+ping", "select": "+select", "asking": "+asking", "subscribe": "+subscribe", "unsubscribe": "+unsubscribe",
	"llen": "+llen", "scard": "+scard", "hlen": "+hlen",
	"zcard": "+zcard", "zcount": "+zcount", "zrange": "+zrange",
	"xlen": "+xlen", "xrange": "+xrange", "xpending": "+xpending", "xinfo": "+xinfo|groups", "xinfo|groups": "+xinfo|groups",
}

// permissionMessage returns the message for a NOPERM reply. It names the missing permission if the reply does.
func permissionMessage(reply string) string {
	if grant := grants[deniedCommand(reply)]; grant != "" {
		return "The Redis user may not run a command that the operator needs. Grant it " + grant + " with ACL SETUSER."
	}
	switch {
	case endsIn(reply, "a key", "one of the keys used as arguments", "' key"):
		return "The Redis user may not read a key of the queue. Grant it read access, for example with ACL SETUSER <user> %R~<key>."
	case endsIn(reply, "a channel", "one of the channels used as arguments", "' channel"):
		return "The Redis user may not subscribe to the channel of the key. Grant it the channel, for example with " +
			"ACL SETUSER <user> &__keyspace@<db>__:<key>."
	}
	return "The Redis user lacks a permission. Grant it LLEN for a list, SCARD for a set, HLEN for a hash, ZCARD (with a window ZCOUNT and " +
		"ZRANGE) for a sorted set, or XLEN, XINFO GROUPS and XRANGE for a stream; and SUBSCRIBE, read access to the key, " +
		"and the channel __keyspace@<db>__:<key>."
}

// deniedCommand returns the command that a NOPERM reply names, or "". Redis quotes it at the end: "… has no permissions
// to run the 'llen' command". The text before it may contain a user name, which anyone can choose.
func deniedCommand(reply string) string {
	quoted, ok := strings.CutSuffix(strings.TrimSuffix(reply, " or its subcommand"), "' command")
	if !ok {
		return ""
	}
	return quoted[strings.LastIndexByte(quoted, '\'')+1:]
}

func endsIn(text string, endings ...string) bool {
	for _, ending := range endings {
		if strings.HasSuffix(text, ending) {
			return true
		}
	}
	return false
}
