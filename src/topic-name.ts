/** Names that Kafka takes for a topic: it is a folder name there, hence neither `.` nor `..`. */
export const topicNamePattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/;

/** Ends a sentence such as "the topic name must be …". */
export const topicNameRule = '1 to 249 letters, digits, ".", "_" or "-", and neither "." nor ".."';
