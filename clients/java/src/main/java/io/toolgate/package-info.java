/**
 * A client of Toolgate, the service that runs the tools of an AI agent with a person in the loop.
 *
 * <p>{@link io.toolgate.ToolgateClient} is where everything begins: it lists and executes tools, answers prompts, lends
 * functions as tools and reads stored outputs. Methods block; waiting threads may be interrupted, which cancels the call
 * that they wait for. What the service says is given as small typed views; the message of the contract behind each of
 * them is its {@code proto()}, from the generated package {@code io.toolgate.v1}.
 */
@NullMarked
package io.toolgate;

import org.jspecify.annotations.NullMarked;
