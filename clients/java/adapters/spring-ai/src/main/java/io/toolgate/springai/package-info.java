/**
 * The tools of a Toolgate service as tools of Spring AI.
 *
 * <p>{@link io.toolgate.springai.ToolgateTools} gives them to a {@code ChatClient} or to the options of a chat model.
 */
package io.toolgate.springai;
